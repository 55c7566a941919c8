"""The engine against the plain model: the same logits, the same translations, whoever else is in the batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import ModelConfig
from regard.core.native import library
from regard.decode.beam import beam_search
from regard.decode.engine import Engine, build_engine
from regard.decode.kernels import Form, load_kernels
from regard.decode.products import ZERO, ByteProduct
from regard.decode.search import pad_sources
from regard.errors import RegardError
from regard.models.transformer import Transformer
from regard.text.tokenizer import BOS, EOS

VOCABULARY = 96
SHAPES: list[dict[str, object]] = [
    {},
    {"norm_order": "pre", "position": "learned", "ffn": "gelu"},
    {"norm": "rmsnorm", "position": "none", "ffn": "swiglu", "sharing": "none"},
    {"norm_order": "pre", "norm": "rmsnorm", "ffn": "swiglu", "n_encoder_layers": 1},
]
TOLERANCE: dict[Form, float] = {"float32": 2e-5, "bfloat16": 0.08, "int8": 0.16}  # logits are of the order of 1
SOURCES = st.lists(st.lists(st.integers(EOS + 1, VOCABULARY - 1), max_size=9), min_size=1, max_size=7)


def make_model(seed: int = 1, **shape: object) -> Transformer:
    torch.manual_seed(seed)
    sizes: dict[str, object] = {"d_model": 64, "n_heads": 4, "d_ff": 96, "n_encoder_layers": 2, "n_decoder_layers": 2}
    vocabulary = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Transformer(ModelConfig(**{**sizes, **vocabulary, **shape})).eval().requires_grad_(False)  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases that are not zero, gains that are not one
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def engine_of(model: Transformer, form: Form = "float32") -> Engine:
    engine = build_engine(model, form)
    if engine is None:
        pytest.skip("there is no C++ compiler here, so there is no engine")
    return engine


@pytest.mark.parametrize("form", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logits_are_the_models_also_when_rows_change_places(shape: dict[str, object], form: Form) -> None:
    model = make_model(**shape)
    engine = engine_of(model, form)
    src_BM = pad_sources([[5, 6, 7, 8], [9, 10, 11, 12, 13, 14], [20], []], torch.device("cpu"))
    moves = {2: [3, 0, 1, 1, 2, 2], 4: [5, 5, 1], 5: [0, 1, 2, 2, 1, 0, 0, 0, 0]}
    with torch.inference_mode():
        plain, fast = model.begin(src_BM, 9), engine.begin(src_BM, 9)
        tokens_R = torch.full((4,), BOS)
        for time in range(8):
            expected, found = model.step(tokens_R, plain), engine.step(tokens_R, fast)
            torch.testing.assert_close(found, expected, atol=TOLERANCE[form], rtol=0, check_dtype=False)
            tokens_R = expected.argmax(dim=1).clamp(min=EOS + 1)
            if time in moves:
                rows_R = torch.tensor(moves[time])
                plain.reorder(rows_R)
                fast.reorder(rows_R)
                tokens_R = tokens_R[rows_R]


@given(seed=st.integers(0, 99), sources=SOURCES, beam=st.integers(1, 5), limit=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_beam_search_finds_what_the_model_finds(seed: int, sources: list[list[int]], beam: int, limit: int) -> None:
    model = make_model(seed)
    engine = engine_of(model)
    src_BM, lengths = pad_sources(sources, torch.device("cpu")), [limit] * len(sources)
    how = {"beam": beam, "length_penalty": 0.6, "max_lengths": lengths, "n_best": beam}
    expected, found = beam_search(model, src_BM, **how), beam_search(engine, src_BM, **how)  # type: ignore[arg-type]
    for sentence, other in zip(expected, found, strict=True):
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-4)
        gaps = [a.score - b.score for a, b in pairwise(sentence)]
        if all(gap > 1e-3 for gap in gaps):  # where two are as good as equal, either may come first
            assert [one.ids for one in sentence] == [one.ids for one in other]


@given(sources=SOURCES, form=st.sampled_from(["float32", "bfloat16", "int8"]))
@settings(max_examples=15, deadline=None)
def test_batch_mates_do_not_matter(sources: list[list[int]], form: Form) -> None:
    """Not bit for bit: a matrix product of other height may add in another order."""
    engine = engine_of(make_model(), form)
    together = first_logits(engine, sources)
    alone = torch.cat([first_logits(engine, [source]) for source in sources])
    torch.testing.assert_close(together, alone, atol=TOLERANCE[form] / 4, rtol=0)


def first_logits(engine: Engine, sources: list[list[int]]) -> Tensor:
    with torch.inference_mode():
        state = engine.begin(pad_sources(sources, torch.device("cpu")), 2)
        return engine.step(torch.full((len(sources),), BOS), state).float()


def test_best_words_are_those_of_the_logits() -> None:
    engine = engine_of(make_model())
    src_BM = pad_sources([[5, 6], [7]], torch.device("cpu"))
    tokens_R = torch.full((2,), BOS)
    with torch.inference_mode():
        log_probs_RV = engine.step(tokens_R, engine.begin(src_BM, 3)).log_softmax(dim=1)
        log_probs_RV[:, engine.barred] = -torch.inf
        expected = log_probs_RV.topk(7, dim=1)
        best_RC, token_RC = engine.best(tokens_R, engine.begin(src_BM, 3), 7)
    torch.testing.assert_close(best_RC, expected.values, atol=1e-5, rtol=0)
    assert torch.equal(token_RC, expected.indices)


def test_equal_logits_are_taken_from_the_left() -> None:
    model = make_model()
    model.output.weight.zero_()
    engine = engine_of(model)
    with torch.inference_mode():
        _, token_RC = engine.best(torch.tensor([BOS]), engine.begin(pad_sources([[5]], torch.device("cpu")), 2), 4)
    allowed = [token for token in range(VOCABULARY) if token not in engine.barred.tolist()]
    assert token_RC[0].tolist() == allowed[:4]


@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
@pytest.mark.parametrize("form", ["float32", "bfloat16"])
def test_damaged_weights_are_an_error(damage: float, form: Form) -> None:
    model = make_model()
    model.output.weight[7, 3] = damage
    with pytest.raises(RegardError, match="not a number for target token 1"):
        beam_search(
            engine_of(model, form), pad_sources([[5]], torch.device("cpu")), beam=2, length_penalty=0.6, max_lengths=[4]
        )


def test_without_the_kernels_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    library.cache_clear()
    try:
        assert build_engine(make_model(), "float32") is None
    finally:
        library.cache_clear()


def test_positions_that_act_on_the_scores_have_no_engine() -> None:
    assert build_engine(make_model(position="alibi"), "float32") is None


@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 16, 4), (3, 80, 36), (7, 112, 64), (2, 96, 256)])
def test_bytes_are_multiplied_exactly(rows: int, columns: int, width: int) -> None:
    kernels = load_kernels("int8", 1, 16)
    if kernels is None or not kernels.has_int8_units:
        pytest.skip("this CPU has no int8 units, or there is no C++ compiler")
    torch.manual_seed(1)
    product = ByteProduct(torch.randn(columns, width), kernels)
    x_RW = torch.randint(0, 256, (rows, width), dtype=torch.uint8)
    assert product.own is not None
    bytes_NW = product.own.transpose(1, 2).reshape(columns, width)
    expected = ((x_RW.int() - ZERO) @ bytes_NW.int().T).float() * product.scale_N
    assert torch.equal(product(x_RW), expected)
