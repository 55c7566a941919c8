"""Our BPE equals SentencePiece's without dropout, and skips merges with the given probability."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.toy import toy_pairs
from regard.text.normalise import normalise
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.training import train_vocabulary

TEXTS = [source for source, _ in toy_pairs("copy", 300, seed=1)] + ["我爱你，中国。", "他在图书馆看书。"] * 20
VOCABULARY = train_vocabulary(TEXTS, "bpe", 420)
WORDS = st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=8).map(" ".join)


def never() -> bool:
    return False


@given(text=st.one_of(WORDS, st.text(max_size=40)))
@settings(deadline=None, max_examples=200)
def test_without_dropout_it_is_sentencepiece(text: str) -> None:
    sampler = VOCABULARY._bpe_dropout
    (ids,) = VOCABULARY.encode([text])
    again = [piece for key in sampler.split(ids) for piece in sampler.merge(sampler.learn(key).symbols, never)]
    assert again == VOCABULARY.pieces(ids)


@given(text=st.one_of(WORDS, st.text(max_size=40)), p=st.floats(0.01, 0.99), seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=150)
def test_a_sample_is_the_same_text(text: str, p: float, seed: int) -> None:
    (ids,) = VOCABULARY.sample([text], p, seed)
    assert VOCABULARY.decode(ids) == normalise(text)


def test_segmentations_are_as_frequent_as_when_every_merge_is_drawn() -> None:
    """The shortcut (one random number for the first skipped merge) against one number per merge."""
    sampler, p, times = VOCABULARY._bpe_dropout, 0.3, 20_000
    (ids,) = VOCABULARY.encode(["kitchen"])
    word = sampler.learn(tuple(ids))
    assert word.merges >= 3
    quick = Counter(tuple(found) for found in sampler.sample([ids] * times, p, seed=1))
    draw = random.Random(2)
    plain = Counter(
        tuple(sampler.ids[piece] for piece in sampler.merge(word.symbols, lambda: draw.random() < p))
        for _ in range(times)
    )
    assert len(plain) > 3
    for segmentation in quick | plain:
        expected = (quick[segmentation] + plain[segmentation]) / 2
        assert abs(quick[segmentation] - plain[segmentation]) < 6 * (2 * expected) ** 0.5 + 5


def test_nearly_everything_left_out_gives_characters() -> None:
    (ids,) = VOCABULARY.sample(["kitchen"], 0.999, seed=3)
    assert len(ids) >= len("kitchen")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_another_process_draws_the_same(tmp_path: Path, kind: str) -> None:
    vocabulary = VOCABULARY if kind == "bpe" else train_vocabulary(TEXTS, "unigram", 340)
    (tmp_path / "tokenizer.model").write_bytes(vocabulary.proto)
    script = (
        "import sys; from pathlib import Path; from regard.tokenizers.sentencepiece import SentencePieceModel\n"
        "vocabulary = SentencePieceModel(Path(sys.argv[1]).read_bytes())\n"
        "print(vocabulary.sample(['kitchen piano river orange'] * 20, 0.3, 7))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "tokenizer.model")]
    said = {subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)}
    assert said == {str(vocabulary.sample(["kitchen piano river orange"] * 20, 0.3, 7))}


def test_pieces_that_go_across_spaces_make_the_sentence_one_unit() -> None:
    assert isinstance(VOCABULARY, SentencePieceModel)
    sampler = type(VOCABULARY._bpe_dropout)(["▁a", "▁b", "▁a▁b"], [0.0, -1.0, -2.0], [False] * 3)
    assert list(sampler.split([0, 1])) == [(0, 1)]
