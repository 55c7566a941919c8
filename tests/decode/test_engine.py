"""The engine against the plain model: the same logits and translations, independent of the batch."""

from __future__ import annotations

import ctypes
import gc
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import DecodeConfig, MixtureConfig, TransformerConfig
from regard.decode.beam import beam_search
from regard.decode.checks import SUPPRESSED_IDS
from regard.decode.engine import NUMBER_FORMATS, Engine, NumberFormat
from regard.decode.engine_positions import PositionTable
from regard.decode.engine_shape import shape_of
from regard.decode.hypotheses import Hypothesis
from regard.decode.model_engine import SteppedEngine, build_engine, build_searcher, engine_refusal
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError, RegardError
from regard.kernels.loader import library
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS, PAD

VOCABULARY = 96
SHAPES: list[dict[str, object]] = [
    {},
    {"norm_order": "pre", "position": "learned", "ffn": "gelu"},
    {"norm": "rmsnorm", "position": "none", "ffn": "swiglu", "tie_embeddings": "none"},
    {"norm_order": "pre", "norm": "rmsnorm", "ffn": "swiglu", "n_encoder_layers": 1},
    {"position": "rotary"},
    {"position": "alibi", "ffn": "gelu_tanh", "tie_embeddings": "output", "output_bias": True},
    {"position": "relative", "norm_order": "pre", "ffn": "geglu"},
    {"ffn": "moe", "norm_order": "pre"},
    {
        **{"ffn": "moe", "position": "alibi"},
        "moe": MixtureConfig(6, 3, 0, 40, "gelu_tanh", 3, 2, "softmax", False, 1.5, "none"),
    },
]
TOLERANCE: dict[NumberFormat, float] = {"float32": 2e-5, "bfloat16": 0.08, "int8": 0.16}  # logits are of the order of 1
SOURCES = st.lists(st.lists(st.integers(EOS + 1, VOCABULARY - 1), max_size=9), min_size=1, max_size=7)


def make_model(seed: int = 1, **shape: object) -> Transformer:
    torch.manual_seed(seed)
    sizes: dict[str, object] = {"d_model": 64, "n_heads": 4, "d_ff": 96, "n_encoder_layers": 2, "n_decoder_layers": 2}
    vocabulary = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Transformer(TransformerConfig(**{**sizes, **vocabulary, **shape})).eval().requires_grad_(False)  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases that are not zero, gains that are not one
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def engine_of(model: Transformer, form: NumberFormat = "float32") -> Engine:
    engine = build_engine(model, form)
    if engine is None:
        pytest.skip("there is no C++ compiler here, so there is no engine")
    return engine


def stepped(model: Transformer, form: NumberFormat = "float32") -> SteppedEngine:
    return SteppedEngine(engine_of(model, form))


def find(engine: Engine, src_BM: Tensor, **how: Any) -> list[list[Hypothesis]]:
    """A search in C++."""
    return engine.beam_search([[token for token in row if token != PAD] for row in src_BM.tolist()], **how)


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logits_are_the_models_also_when_rows_change_places(shape: dict[str, object], form: NumberFormat) -> None:
    model = make_model(**shape)
    engine = stepped(model, form)
    src_BM = pad_sources([[5, 6, 7, 8], [9, 10, 11, 12, 13, 14], [20], []], torch.device("cpu"))
    # A small difference may route a token to another expert.
    tolerance = TOLERANCE[form] * (3 if shape.get("ffn") == "moe" and form != "float32" else 1)
    moves = {2: [3, 0, 1, 1, 2, 2], 4: [5, 5, 1], 5: [0, 1, 2, 2, 1, 0, 0, 0, 0]}
    with torch.inference_mode():
        plain, fast = model.begin(src_BM, 9), engine.begin(src_BM, 9)
        tokens_R = torch.full((4,), BOS)
        for time in range(8):
            expected, found = model.step(tokens_R, plain), engine.step(tokens_R, fast)
            torch.testing.assert_close(found, expected, atol=tolerance, rtol=0, check_dtype=False)
            tokens_R = expected.argmax(dim=1).clamp(min=EOS + 1)
            if time in moves:
                rows_R = torch.tensor(moves[time])
                plain.reorder(rows_R)
                fast.reorder(rows_R)
                tokens_R = tokens_R[rows_R]


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("heads", [1, 2, 8])  # of 72, 36 and 9: whole vectors and a rest, or a rest alone
def test_attention_to_more_keys_than_it_takes_at_once(heads: int, form: NumberFormat) -> None:
    model = make_model(d_model=72, n_heads=heads)
    engine = stepped(model, form)
    src_BM = pad_sources([list(range(5, 5 + length)) for length in (40, 15, 16, 31)], torch.device("cpu"))
    with torch.inference_mode():
        plain, fast = model.begin(src_BM, 35), engine.begin(src_BM, 35)
        tokens_R = torch.full((4,), BOS)
        for _ in range(34):
            expected, found = model.step(tokens_R, plain), engine.step(tokens_R, fast)
            torch.testing.assert_close(found, expected, atol=TOLERANCE[form], rtol=0, check_dtype=False)
            tokens_R = expected.argmax(dim=1).clamp(min=EOS + 1)


@given(
    seed=st.integers(0, 99),
    sources=SOURCES,
    beam=st.integers(1, 5),
    n_best=st.integers(1, 5),
    limits=st.lists(st.integers(1, 12), min_size=7, max_size=7),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
)
@settings(max_examples=60, deadline=None)
def test_beam_search_finds_what_the_model_finds(
    seed: int, sources: list[list[int]], beam: int, n_best: int, limits: list[int], penalty: float
) -> None:
    model = make_model(seed)
    engine = engine_of(model)
    src_BM = pad_sources(sources, torch.device("cpu"))
    how: dict[str, Any] = {"beam": beam, "length_penalty": penalty, "n_best": min(n_best, beam)}
    how["max_lengths"] = limits[: len(sources)]
    expected, found = beam_search(model, src_BM, **how), find(engine, src_BM, **how)
    for sentence, other in zip(expected, found, strict=True):
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-4)
        gaps = [a.score - b.score for a, b in pairwise(sentence)]
        if all(abs(gap) > 1e-3 for gap in gaps):  # where two are as good as equal, either may come first
            assert [(one.ids, one.finished) for one in sentence] == [(one.ids, one.finished) for one in other]
            for a, b in zip(sentence, other, strict=True):
                assert a.log_prob == pytest.approx(b.log_prob, abs=1e-4)
                assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("form", NUMBER_FORMATS)
def test_the_cpp_search_equals_the_python_search_with_the_engines_steps(form: NumberFormat) -> None:
    """The whole search in C++ against beam.py with the engine's own steps: the same numbers, so the same results."""
    engine = engine_of(make_model(3), form)
    src_BM = pad_sources([[5, 6, 7], [8], [9, 10, 11, 12], []], torch.device("cpu"))
    how: dict[str, Any] = {"beam": 4, "length_penalty": 0.6, "n_best": 3, "max_lengths": [9, 7, 12, 1]}
    step_by_step = beam_search(SteppedEngine(engine), src_BM, **how)
    for sentence, other in zip(step_by_step, find(engine, src_BM, **how), strict=True):
        assert [one.ids for one in sentence] == [one.ids for one in other]
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-5)


@given(sources=SOURCES, form=st.sampled_from(NUMBER_FORMATS))
@settings(max_examples=15, deadline=None)
def test_batch_mates_do_not_matter(sources: list[list[int]], form: NumberFormat) -> None:
    """Bit for bit: every row is summed in the same order, at any position."""
    engine = engine_of(make_model(), form)
    together = first_logits(engine, sources)
    alone = torch.cat([first_logits(engine, [source]) for source in sources])
    assert torch.equal(together, alone)


def first_logits(engine: Engine, sources: list[list[int]]) -> Tensor:
    state = engine.begin([[*ids, EOS] for ids in sources], 2)
    return torch.from_numpy(engine.step(np.full(len(sources), BOS), state))


def test_equal_logits_are_taken_from_the_left() -> None:
    model = make_model()
    model.output.weight.zero_()
    src_BM = pad_sources([[5]], torch.device("cpu"))
    (found,) = find(engine_of(model), src_BM, beam=4, length_penalty=0.6, max_lengths=[1], n_best=4)
    allowed = [token for token in range(VOCABULARY) if token not in SUPPRESSED_IDS]
    assert [one.ids for one in found] == [() if token == EOS else (token,) for token in allowed[:4]]


def test_several_threads_may_search_at_once() -> None:
    engine = engine_of(make_model())
    sources = [[5 + i % 60, 7, 9 + i % 50] for i in range(64)]
    how = DecodeConfig(beam=3, batch_tokens=32)
    many = search(engine, sources, how, torch.device("cpu"))
    assert many == [search(engine, [source], how, torch.device("cpu"))[0] for source in sources]


@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("name", ["output.weight", "encoder.1.around_ffn.norm.weight", "decoder.0.cross.qkv.bias"])
def test_damaged_weights_are_an_error(damage: float, form: NumberFormat, name: str) -> None:
    model = make_model(d_model=36, n_heads=3)  # fills no whole vector
    model.get_parameter(name)[-1] = damage
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        engine_of(model, form).beam_search([[5, EOS]], beam=2, length_penalty=0.6, max_lengths=[4], n_best=1)


def test_ids_and_positions_out_of_range_are_refused() -> None:
    """Beyond the tables of embeddings and of positions, the model says so, too."""
    engine = engine_of(make_model(position="learned", max_positions=6))
    for sources, limit, wrong, message in (
        ([[5] * 6], 4, ValueError, "7 tokens, but this model has learned positions for only 6"),
        ([[5]], 7, ValueError, "7 tokens, but this model has learned positions for only 6"),
        ([[5, VOCABULARY]], 4, IndexError, "source token 96 at position 1 is out of range: it must be from 0 to 95"),
    ):
        with pytest.raises(wrong, match=message):
            engine.beam_search([[*ids, EOS] for ids in sources], beam=2, length_penalty=0.6, max_lengths=[limit])


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
def test_tokens_outside_the_vocabulary_are_refused(token: int) -> None:
    """As by the model's embeddings; the engine remains usable."""
    model = make_model()
    engine = engine_of(model)
    message = f"token {token} at position 1 is out of range: it must be from 0 to 95"
    with pytest.raises(IndexError, match=f"source {message}"):
        engine.begin([[5, token, EOS]], 4)
    with pytest.raises(IndexError):
        model.begin(torch.tensor([[5, token, EOS]]), 4)
    state = engine.begin([[5, EOS], [6, EOS]], 4)
    with pytest.raises(IndexError, match=f"target {message}"):
        engine.step(np.array([7, token]), state)
    with pytest.raises(IndexError, match=f"row {token} at position 1 is out of range: it must be from 0 to 1"):
        state.reorder(np.array([1, token]))
    assert np.isfinite(engine.step(np.array([7, 8]), state)).any()


def test_what_the_engine_refuses() -> None:
    engine = engine_of(make_model())
    with pytest.raises(ValueError, match="source 1 of the batch is empty"):
        engine.begin([[5, EOS], []], 4)
    state = engine.begin([[5, EOS]], 4)
    with pytest.raises(ValueError, match="the state has 1 rows, but there are 2 tokens"):
        engine.step(np.array([7, 8]), state)
    with pytest.raises(ctypes.ArgumentError, match="int64"):
        engine.step(np.array([7.0]), state)


@pytest.mark.parametrize(
    ("allowed", "error", "message"),
    [
        ([], ValueError, "give at least one"),
        ([5, VOCABULARY], IndexError, "go from 5 to 96; the model has 96"),
        ([-1, 5], IndexError, "go from -1 to 5; the model has 96"),
        ([7, 6], ValueError, "ascending order"),
        ([6, 6], ValueError, "ascending order"),
    ],
)
def test_invalid_allowed_tokens_are_refused(allowed: list[int], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        engine_of(make_model()).restricted(np.array(allowed, np.int64))


def test_a_search_that_fits_into_no_memory_raises() -> None:
    engine = engine_of(make_model(position="none"))
    before = first_logits(engine, [[5, 6]])
    with pytest.raises(MemoryError, match="could not allocate its working memory"):
        engine.begin([[5, EOS]], 2**50)
    assert torch.equal(first_logits(engine, [[5, 6]]), before)


@pytest.mark.parametrize(
    "shape", [{}, {"ffn": "gelu", "norm_order": "pre"}, {"ffn": "swiglu", "norm": "rmsnorm"}], ids=str
)
@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_non_finite_weights_give_the_same_in_the_engine(
    shape: dict[str, object], form: NumberFormat, wrong: float
) -> None:
    """A bad number in one source's embedding, or in one row of the output matrix: the same logits are NaN."""
    model = make_model(d_model=36, n_heads=3, tie_embeddings="none", **shape)
    model.src_embedding.weight[9, 3] = wrong
    model.output.weight[20, 5] = torch.nan
    engine, src_BM = engine_of(model, form), pad_sources([[5, 6], [8, 9, 7], [10]], torch.device("cpu"))
    with torch.inference_mode():
        tokens_R = torch.full((3,), BOS)
        expected = model.step(tokens_R, model.begin(src_BM, 2))
        found = SteppedEngine(engine).step(tokens_R, SteppedEngine(engine).begin(src_BM, 2))
    assert torch.equal(found.isnan(), expected.isnan())
    assert found[1].isnan().all()
    assert found[[0, 2]].isnan().sum() == 2
    how: dict[str, Any] = {"beam": 2, "length_penalty": 0.6, "max_lengths": [4, 4, 4]}
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        beam_search(model, src_BM, **how)
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        find(engine, src_BM, **how)


def test_no_more_tokens_than_there_is_room_for() -> None:
    engine = engine_of(make_model())
    state = engine.begin([[5, 6, EOS]], max_length=2)
    for _ in range(2):
        engine.step(np.array([7]), state)
    with pytest.raises(IndexError, match="begin with a larger max_length"):
        engine.step(np.array([7]), state)


def test_the_table_of_positions_is_long_enough_whatever_another_thread_does() -> None:
    class Raced(PositionTable):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "tables" and value[0] > 256:  # type: ignore[index]  # another thread had begun before, with less
                super().__setattr__(name, (256, self.rows(256), None))

    shape = shape_of(make_model().config)
    assert shape.encoder is not None
    tables = Raced(shape, shape.encoder, {}).up_to(1000)
    assert tables.rows is not None
    assert tables.length == len(tables.rows) == 1000


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_a_model_can_change_without_its_engine(position: str) -> None:
    model = make_model(position=position)
    engine = engine_of(model)
    before = first_logits(engine, [[5, 6, 7], [8]])
    shapes = [parameter.shape for parameter in model.parameters()]
    model.double()
    elsewhere = [torch.full(shape, torch.nan) for shape in shapes]  # where the weights were, if nobody held them
    assert torch.equal(first_logits(engine, [[5, 6, 7], [8]]), before)
    del elsewhere


def test_a_state_is_freed_before_its_engine() -> None:
    """As when a traceback is dropped: the state returns its workspace to the engine."""
    engine = engine_of(make_model())
    state = engine.begin([[5, EOS]], 2)
    freed: list[str] = []
    weakref.finalize(engine, freed.append, "engine")
    weakref.finalize(state, freed.append, "state")
    cycle: list[object] = [engine, state]
    cycle.append(cycle)
    del engine, state, cycle
    gc.collect()
    assert freed == ["state", "engine"]


def test_without_the_kernels_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    library.cache_clear()
    try:
        assert build_engine(make_model(), "float32") is None
        with pytest.raises(ConfigError, match=r"there is no engine on this machine \(`regard doctor` says why\)"):
            Engine(make_model().config, {}, "float32")
    finally:
        library.cache_clear()


@pytest.mark.parametrize("form", NUMBER_FORMATS)
def test_odd_sizes(form: NumberFormat) -> None:
    """Columns that fill no whole vector, rows that fill no whole tile."""
    model = make_model(d_model=36, n_heads=3, d_ff=20, src_vocab_size=71, tgt_vocab_size=71)
    engine = stepped(model, form)
    src_BM = pad_sources([[5] * n for n in range(1, 9)], torch.device("cpu"))
    tokens_R = torch.full((8,), BOS)
    with torch.inference_mode():
        expected, found = model.step(tokens_R, model.begin(src_BM, 2)), engine.step(tokens_R, engine.begin(src_BM, 2))
    torch.testing.assert_close(found, expected, atol=TOLERANCE[form], rtol=0)


def test_damaged_weights_have_no_scores() -> None:
    model = make_model()
    model.get_parameter("decoder.0.cross.qkv.bias")[-1] = torch.nan
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        engine_of(model).score([[5, EOS]], [[6]])


def test_weights_of_heads_that_the_decoder_does_not_have() -> None:
    engine = engine_of(make_model())
    assert engine.score([], []) == []
    with pytest.raises(ValueError, match=r"the weights of the heads are \(2, 3\); the decoder has \(2, 4\)"):
        engine.score([[5, EOS]], [[6]], head_weights=np.ones((2, 3), np.float32))


def test_every_sample_has_its_seed() -> None:
    engine = engine_of(make_model())
    how: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "n_samples": 1, "max_lengths": [4]}
    with pytest.raises(ConfigError, match="there are 1 sentences but 2 seeds; give one each"):
        engine.sample([[5, EOS]], seeds=[1, 2], length_penalty=0.6, **how)


def test_weights_in_another_type_are_refused() -> None:
    model = make_model()
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    weights["tgt_embedding.weight"] = weights["tgt_embedding.weight"].astype(np.float16)
    engine_of(model)  # or else the test is skipped
    with pytest.raises(ConfigError, match=r"takes weights in float32, bf16 and int8, and .* is in float16"):
        Engine(model.config, weights, "float32")


def test_the_engine_searches_for_a_model_of_the_cpu() -> None:
    model = make_model()
    engine_of(model)  # or else the test is skipped
    assert isinstance(build_searcher(model, "float32"), Engine)
    assert engine_refusal(model) is None
    assert engine_refusal(model.to("meta")) == "the engine runs on the CPU only, and the model is on meta"
