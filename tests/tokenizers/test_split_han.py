"""The option `split_han`: every Han character is a piece of its own."""

from __future__ import annotations

import re

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from regard.text.normalise import normalise
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.training import train_vocabulary

CHINESE = [
    "我爱你。",
    "我吃鱼。",
    "鱼吃我。",
    "把它看完了，把它喝完了。",
    "Tom 喜欢 Kubernetes 的 Pod。",
    "我用Python写了3行。",
] * 9
ENGLISH = ["Two dogs are running.", "I love you.", "The dogs eat fish, and Tom likes Python 我."] * 9
HAN = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

VOCABULARIES = {
    "bpe": train_vocabulary(CHINESE, "bpe", 420, split_han=True),
    "unigram": train_vocabulary(CHINESE, "unigram", 340, split_han=True),
    "English": train_vocabulary(ENGLISH, "bpe", 360, split_han=True),
    "both": train_vocabulary(CHINESE + ENGLISH * 3, "bpe", 460, split_han=True),
}


def cut(vocabulary: SentencePieceModel, text: str) -> list[str]:
    [ids] = vocabulary.encode([text])
    return vocabulary.pieces(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_chinese_characters_are_pieces(kind: str) -> None:
    vocabulary = VOCABULARIES[kind]
    assert cut(vocabulary, "我爱你") == ["我", "爱", "你"]
    assert cut(vocabulary, "把它喝完了") == ["把", "它", "喝", "完", "了"]
    assert cut(vocabulary, "我用Python")[:2] == ["我", "用"]


def test_without_the_option_they_are_merged() -> None:
    assert "我" not in cut(train_vocabulary(CHINESE, "bpe", 420), "把它看完了")
    assert any(len(HAN.findall(piece)) > 1 for piece in cut(train_vocabulary(CHINESE, "bpe", 420), "把它看完了"))


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_no_piece_has_a_han_character_and_another(kind: str) -> None:
    vocabulary = VOCABULARIES[kind]
    assert not [piece for piece in vocabulary.pieces(range(vocabulary.size)) if HAN.search(piece) and len(piece) > 1]


def test_english_words_are_merged_as_before() -> None:
    assert cut(VOCABULARIES["English"], "Two dogs are running") == ["▁Two", "▁dogs", "▁are", "▁running"]
    assert cut(VOCABULARIES["both"], "Two dogs") == ["▁Two", "▁dogs"]


def test_the_model_file_alone_gives_the_same_pieces() -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=VOCABULARIES["bpe"].proto)
    assert processor.encode("我爱你。", out_type=str) == ["我", "爱", "你", "。"]


@pytest.mark.parametrize("kind", VOCABULARIES)
@given(text=st.text(st.one_of(st.characters(), st.sampled_from("我爱你。 ，aT3")), max_size=30))
def test_round_trip(kind: str, text: str) -> None:
    vocabulary = VOCABULARIES[kind]
    [ids] = vocabulary.encode([text])
    assert vocabulary.decode(ids) == normalise(text)
    assert all(len(piece) == 1 for piece in vocabulary.pieces(ids) if HAN.search(piece))


def test_bpe_dropout_never_merges_han_characters() -> None:
    sampled = VOCABULARIES["bpe"].sample(["我用Python写了3行。"] * 50, 0.3, seed=1)
    assert len({tuple(ids) for ids in sampled}) > 3
    for ids in sampled:
        assert VOCABULARIES["bpe"].decode(ids) == "我用Python写了3行。"
        assert "我" in VOCABULARIES["bpe"].pieces(ids)
