from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tokenizers.segmentation import MERGES_UP_TO, segment
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.training import train_vocabulary

SENTENCES = [
    "the lowest tower",
    "lower and lower",
    "a new tower",
    "the newest low town",
    "我 爱 你",
    "我们 爱 你们",
] * 5


@pytest.fixture(scope="module")
def bpe() -> SentencePieceModel:
    return train_vocabulary(SENTENCES, "bpe", 330)


@pytest.fixture(scope="module")
def unigram() -> SentencePieceModel:
    return train_vocabulary(SENTENCES, "unigram", 290)


any_text = st.one_of(st.text(max_size=40), st.text("lowerstwna 我爱你们", max_size=40))


@given(text=any_text)
@settings(deadline=None, max_examples=100)
def test_the_pieces_are_the_vocabulary_s_and_spell_the_text(
    bpe: SentencePieceModel, unigram: SentencePieceModel, text: str
) -> None:
    for vocabulary in (bpe, unigram):
        found = segment(vocabulary, text)
        assert [[piece.id for piece in found.pieces]] == vocabulary.encode([text])
        assert "".join(piece.text for piece in found.pieces).strip() == found.normalised


@given(text=any_text)
@settings(deadline=None, max_examples=100)
def test_the_merges_lead_from_the_characters_to_the_pieces(bpe: SentencePieceModel, text: str) -> None:
    found = segment(bpe, text)
    symbols = list(found.start)
    assert all(len(symbol) == 1 for symbol in symbols)
    assert "".join(symbols).replace("▁", " ").strip() == found.normalised
    for merge in found.merges:
        assert symbols[merge.place : merge.place + 2] == [merge.left, merge.right]
        symbols[merge.place : merge.place + 2] = [merge.result]
        assert (merge.result, list(merge.symbols)) == (merge.left + merge.right, symbols)
    whole = [piece.piece if piece.kind == "normal" else piece.text for piece in found.pieces]
    assert symbols == [piece for piece in whole if piece]


def test_the_order_is_that_of_learning(bpe: SentencePieceModel) -> None:
    found = segment(bpe, "lowest tower")
    assert found.merges
    ranks = [bpe.merge_ranks[merge.result] for merge in found.merges]
    first = min(
        bpe.merge_ranks[a + b] for a, b in zip(found.start, found.start[1:], strict=False) if a + b in bpe.merge_ranks
    )
    assert ranks[0] == first
    assert all(merge.result in bpe.merge_ranks for merge in found.merges)


def test_a_character_without_a_piece_is_spelt_in_bytes(bpe: SentencePieceModel) -> None:
    found = segment(bpe, "low é龘")
    kinds = [piece.kind for piece in found.pieces]
    assert kinds[-5:] == ["byte"] * 5
    assert [piece.text for piece in found.pieces][-5:] == ["é", "", "龘", "", ""]
    assert [piece.piece for piece in found.pieces][-5:] == ["<0xC3>", "<0xA9>", "<0xE9>", "<0xBE>", "<0x98>"]
    assert found.merges[-1].symbols[-2:] == ("é", "龘")


def test_the_kinds_of_pieces(bpe: SentencePieceModel) -> None:
    assert [bpe.kind_of(i) for i in range(5)] == ["control", "unknown", "control", "control", "byte"]
    assert bpe.kind_of(bpe.size - 1) == "normal"
    with pytest.raises(ValueError, match="not in this vocabulary"):
        bpe.kind_of(bpe.size)


def test_no_merges_for_unigram_and_long_texts(bpe: SentencePieceModel, unigram: SentencePieceModel) -> None:
    assert segment(unigram, "lowest tower").merges == ()
    assert segment(bpe, "low " * MERGES_UP_TO).merges == ()
    assert segment(bpe, "").pieces == ()


def test_normalised_and_lowercase(bpe: SentencePieceModel) -> None:
    found = segment(bpe, "  ＬＯＷ\ttower ", lowercase=True)
    assert (found.text, found.normalised) == ("  ＬＯＷ\ttower ", "low tower")
    assert segment(bpe, "LOW").normalised == "LOW"
