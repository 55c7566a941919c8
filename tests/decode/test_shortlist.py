"""Search restricted to some tokens: the engine against the masked model; and the shortlist of these tokens."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodeConfig, TransformerConfig
from regard.data.store import PairStore, PairStoreWriter
from regard.decode.beam import beam_search
from regard.decode.engine import NUMBER_FORMATS, Engine, NumberFormat
from regard.decode.hypotheses import Hypothesis
from regard.decode.learn_shortlist import learn_shortlist, writing_pieces
from regard.decode.model_engine import SteppedEngine, build_engine
from regard.decode.restricted import Restricted, restrict
from regard.decode.search import pad_sources, search
from regard.decode.shortlist import Shortlist, load_shortlist
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder.folder import SHORTLIST, write_shortlist
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator
from regard.text.normalise import normalise
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import BOS, EOS, PAD
from regard.tokenizers.training import train_vocabulary

CPU = torch.device("cpu")
VOCABULARY = 90  # fills no whole vector
SPECIAL = [0, 1, 2, 3]
SOURCES = st.lists(st.lists(st.integers(EOS + 1, VOCABULARY - 1), max_size=7), min_size=1, max_size=5)
ALLOWED = st.sets(st.integers(EOS + 1, VOCABULARY - 1), max_size=VOCABULARY)


def make_model(seed: int = 1) -> Transformer:
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 2}
    config = TransformerConfig(**sizes, src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY)
    return Transformer(config).eval().requires_grad_(False)


def engine_of(model: Transformer, form: NumberFormat = "float32") -> Engine:
    engine = build_engine(model, form)
    if engine is None:
        pytest.skip("there is no C++ compiler here, so there is no engine")
    return engine


def find(engine: Engine, src_BM: torch.Tensor, **how: Any) -> list[list[Hypothesis]]:
    """A search in C++."""
    return engine.beam_search([[token for token in row if token != PAD] for row in src_BM.tolist()], **how)


def tokens(allowed: set[int]) -> np.ndarray:
    return np.array(sorted({*SPECIAL, *allowed}), np.int64)


def list_of(always: list[int], lists: dict[int, list[int]] | None = None) -> Shortlist:
    """A shortlist of the model's vocabulary, with these pieces for some sources."""
    own = [(lists or {}).get(token, []) for token in range(VOCABULARY)]
    starts = np.cumsum([0, *map(len, own)])
    return Shortlist(np.array(always, np.int64), starts, np.array([p for pieces in own for p in pieces], np.int32))


@given(
    seed=st.integers(0, 99),
    sources=SOURCES,
    allowed=ALLOWED,
    beam=st.integers(1, 5),
    limits=st.lists(st.integers(1, 9), min_size=5, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_the_engine_finds_what_the_masked_model_finds(
    seed: int, sources: list[list[int]], allowed: set[int], beam: int, limits: list[int]
) -> None:
    model = make_model(seed)
    src_BM = pad_sources(sources, CPU)
    how: dict[str, Any] = {"beam": beam, "length_penalty": 0.6, "n_best": beam, "max_lengths": limits[: len(sources)]}
    masked = beam_search(Restricted(model, tokens(allowed)), src_BM, **how)
    found = find(engine_of(model).restricted(tokens(allowed)), src_BM, **how)
    for sentence, other in zip(masked, found, strict=True):
        assert {token for one in other for token in one.ids} <= allowed
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-4)
        if all(a.score - b.score > 1e-3 for a, b in pairwise(sentence)):  # of near equals, either may come first
            assert [(one.ids, one.finished) for one in sentence] == [(one.ids, one.finished) for one in other]


@pytest.mark.parametrize("form", NUMBER_FORMATS)
def test_logits_of_allowed_words_stay_bit_for_bit(form: NumberFormat) -> None:
    engine = engine_of(make_model(), form)
    sources, allowed = [[5, 6, EOS], [7, 8, 9, EOS]], tokens(set(range(9, 80, 3)))
    first = np.full(2, BOS)
    whole = engine.step(first, engine.begin(sources, 2))
    smaller = engine.restricted(allowed)
    found = smaller.step(first, smaller.begin(sources, 2))
    assert np.array_equal(found[:, allowed], whole[:, allowed])
    others = np.setdiff1d(np.arange(VOCABULARY), allowed)
    assert (found[:, others] == -np.inf).all()


@pytest.mark.parametrize("form", NUMBER_FORMATS)
def test_a_list_of_all_words_changes_nothing(form: NumberFormat) -> None:
    engine = engine_of(make_model(4), form)
    sources = [[5 + i, 7, 9 + i] for i in range(20)]
    how = DecodeConfig(beam=3, batch_tokens=16)
    everything = list_of(list(range(VOCABULARY)))
    assert search(engine, sources, how, CPU, shortlist=everything) == search(engine, sources, how, CPU)


@pytest.mark.parametrize("form", NUMBER_FORMATS)
def test_the_restricted_cpp_search_equals_the_python_search(form: NumberFormat) -> None:
    """The whole search in C++ against beam.py with the engine's own steps, which a prefix or an observer gets."""
    engine = engine_of(make_model(3), form).restricted(tokens({7, 20, 21, 22, 40, 41, 88, 89}))
    src_BM = pad_sources([[5, 6, 7], [8], []], CPU)
    how: dict[str, Any] = {"beam": 4, "length_penalty": 0.6, "n_best": 3, "max_lengths": [9, 7, 2]}
    step_by_step = beam_search(SteppedEngine(engine), src_BM, **how)
    for sentence, other in zip(step_by_step, find(engine, src_BM, **how), strict=True):
        assert [one.ids for one in sentence] == [one.ids for one in other]
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-5)


@pytest.mark.parametrize("native", [True, False])
def test_a_batch_has_the_words_of_its_sources(native: bool) -> None:
    model = make_model(5)
    searched = engine_of(model) if native else model
    shortlist = list_of(SPECIAL, {5: [30, 31], 6: [40], 7: [50]})
    how = DecodeConfig(beam=2, max_length_ratio=0.0, max_length_extra=6)
    both = search(searched, [[5], [6, 6]], how, CPU, shortlist=shortlist)
    assert {token for (best,) in both for token in best.ids} <= {30, 31, 40}
    ((alone,),) = search(searched, [[7]], how, CPU, shortlist=shortlist)
    assert set(alone.ids) <= {50}
    ((drawn,),) = search(searched, [[7]], DecodeConfig(method="sample", seed=3), CPU, shortlist=shortlist)
    assert set(drawn.ids) <= {50}


@pytest.mark.parametrize("native", [True, False])
def test_a_forced_prefix_can_be_written(native: bool) -> None:
    model = make_model()
    searched = engine_of(model) if native else model
    shortlist = list_of(SPECIAL, {5: [30]})
    how = DecodeConfig(beam=2, max_length_ratio=0.0, max_length_extra=4)
    ((found,),) = search(searched, [[5]], how, CPU, prefixes=[[60, 61]], shortlist=shortlist)
    assert found.ids[:2] == (60, 61)
    assert set(found.ids) <= {30, 60, 61}


def test_a_restricted_engine_outlives_the_original() -> None:
    model = make_model()
    src_BM = pad_sources([[5, 6]], CPU)
    how: dict[str, Any] = {"beam": 2, "length_penalty": 0.6, "max_lengths": [5]}
    expected = beam_search(Restricted(model, tokens({9, 10})), src_BM, **how)
    kept = restrict(SteppedEngine(engine_of(model)), tokens({9, 10}))
    assert [[one.ids for one in best] for best in beam_search(kept, src_BM, **how)] == [
        [one.ids for one in best] for best in expected
    ]


@given(SOURCES, st.lists(st.lists(st.integers(4, VOCABULARY - 1), max_size=3), max_size=2))
def test_what_is_allowed(sources: list[list[int]], prefixes: list[list[int]]) -> None:
    lists = {token: [(7 * token) % 80 + 4, (11 * token) % 80 + 4] for token in range(4, VOCABULARY, 2)}
    found = list_of([*SPECIAL, 9], lists).allowed([*sources, [VOCABULARY + 5]], prefixes).tolist()
    wanted = {piece for ids in sources for token in ids for piece in lists.get(token, [])}
    assert found == sorted({*SPECIAL, 9} | wanted | {token for ids in prefixes for token in ids})


# ---- learning and keeping ----

ENGLISH = ["the dog runs", "a dog sleeps", "the cat runs", "a cat sleeps", "the bird sings", "a bird sleeps"] * 6
GERMAN = ["der Hund rennt", "ein Hund schläft", "die Katze rennt", "eine Katze schläft", "der Vogel singt"]
GERMAN = [*GERMAN, "ein Vogel schläft"] * 6


@pytest.fixture(scope="module")
def tokenizer() -> TokenizerPair:
    return TokenizerPair(train_vocabulary(ENGLISH, "bpe", 310), train_vocabulary(GERMAN, "bpe", 320))


@pytest.fixture
def pairs(tokenizer: TokenizerPair, tmp_path: Path) -> PairStore:
    with PairStoreWriter(tmp_path / "pairs", 320, with_text=False, max_tokens=99) as writer:
        writer.append(tokenizer.encode_src(ENGLISH), tokenizer.encode_tgt(GERMAN), [])
        return writer.finish({})


def test_it_is_learnt_from_pairs(tokenizer: TokenizerPair, pairs: PairStore) -> None:
    shortlist = learn_shortlist([pairs], tokenizer, lambda text: None, translations=5, frequent=3)
    [source], [target] = tokenizer.encode_src(["the bird sings"]), tokenizer.encode_tgt(["der Vogel singt"])
    assert set(target) <= set(shortlist.allowed([source]).tolist())
    [other] = tokenizer.encode_src(["a cat sleeps"])
    assert not set(target) <= set(shortlist.allowed([other]).tolist())
    assert {*SPECIAL} <= set(shortlist.always.tolist())
    assert len(shortlist.always) <= 4 + 3 + 257  # special, frequent, bytes and the space


@given(st.text(max_size=12))
@settings(deadline=None)
def test_any_text_can_be_written(text: str) -> None:
    tokenizer = TokenizerPair(*(train_vocabulary(["ab ba"] * 4, "bpe", 270),) * 2)
    pieces = tokenizer.tgt.pieces(range(tokenizer.tgt.size))
    bytewise = [pieces.index(f"<0x{byte:02X}>") for byte in normalise(text).encode()]
    assert set(bytewise) <= set(writing_pieces(tokenizer))
    assert normalise(tokenizer.decode_tgt(bytewise)) == normalise(text)


def test_it_is_kept_in_the_model_folder(random_model: Any, reverse: ModelTranslator) -> None:
    size = reverse.tokenizer.tgt.size
    folder = random_model("with shortlist", dtype=torch.float32)
    with pytest.raises(ConfigError, match="has no shortlist; make one with: regard shortlist"):
        ModelTranslator(folder, shortlist=True)
    ids = reverse.encode_src(["red green"])[0]
    starts = np.zeros(size + 1, np.int64)
    made = Shortlist(np.array([*SPECIAL, *ids], np.int64), starts, np.empty(0, np.int32))
    write_shortlist(folder, made.to_bytes())
    kept = load_shortlist(folder, size)
    assert kept.always.tolist() == made.always.tolist()
    assert (kept.starts.dtype, kept.pieces.dtype) == (np.int64, np.int32)
    way = ModelTranslator(folder, shortlist=True)
    [translation] = way.translate(["blue green red"])
    assert set(way.tokenizer.encode_tgt([translation.text])[0]) <= set(ids)
    assert ModelTranslator(folder).shortlist is None


def test_a_shortlist_of_another_model_is_refused(random_model: Any, reverse: ModelTranslator) -> None:
    folder, size = random_model("other", dtype=torch.float32), reverse.tokenizer.tgt.size
    made = Shortlist(np.array([*SPECIAL, size]), np.zeros(2, np.int64), np.empty(0, np.int32))
    write_shortlist(folder, made.to_bytes())
    with pytest.raises(ModelFolderError, match="belongs to another model"):
        load_shortlist(folder, size)
    write_shortlist(folder, b"nonsense")
    with pytest.raises(ModelFolderError, match=f"{SHORTLIST} is not a shortlist"):
        load_shortlist(folder, size)


def test_a_restricted_model_restricts_whole_targets_too() -> None:
    model = make_model()
    restricted = Restricted(model, tokens({7, 20}))
    assert restricted.longest_target == model.longest_target
    src_BM, tgt_BL = pad_sources([[5, 6]], CPU), torch.tensor([[BOS, 7, 20]])
    found, whole = restricted(src_BM, tgt_BL), model(src_BM, tgt_BL)
    assert torch.equal(found[..., [7, 20]], whole[..., [7, 20]])
    assert (found[..., 21:] == -torch.inf).all()
