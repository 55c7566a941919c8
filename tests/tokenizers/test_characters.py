"""A vocabulary of characters keeps a text as it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.protocol import read_tokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK
from regard.tokenizers.training import train_vocabulary

POEM = "床前明月光，\n疑是地上霜。\n"


@settings(deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda t: "[MASK]" not in t))
def test_known_characters_round_trip(text: str) -> None:
    tokenizer = CharacterTokenizer.of([text])
    [ids] = tokenizer.encode([text])
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    again = read_tokenizer(tokenizer.files(), False)
    assert again.encode([text]) == [ids]
    assert again.size == tokenizer.size


def test_the_ids() -> None:
    tokenizer = CharacterTokenizer.of(["ba\n"])
    assert tokenizer.encode(["ab\nc[MASK]a"]) == [[6, 7, 5, UNK, 4, 6]]
    assert tokenizer.pieces([PAD, BOS, 6, EOS, 4]) == ["<pad>", "<s>", "a", "</s>", "[MASK]"]
    assert tokenizer.decode([BOS, 6, UNK, 4, EOS]) == "a\ufffd"
    assert tokenizer.prompt("a") == [BOS, 6]
    assert set(tokenizer.suppressed_ids) == {PAD, UNK, BOS, 4}


def test_only_the_most_frequent_characters() -> None:
    assert CharacterTokenizer.of([POEM, "床明月"], most=4).characters == "\n床明月"
    assert CharacterTokenizer.of(["aAbB\ud800"], lowercase=True).characters == "ab"
    assert CharacterTokenizer.of(["ab"], lowercase=True).encode(["A[MASK]B"]) == [[5, 4, 6]]


def test_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="every line of the training text is empty"):
        CharacterTokenizer.of(["", ""])
    with pytest.raises(ConfigError, match="each only once"):
        read_tokenizer({"characters.txt": b"aba"}, False)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_tokenizer({"characters.txt": b"\xff"}, False)


def test_sentencepiece_may_have_a_mask() -> None:
    vocabulary = train_vocabulary(["今天天气很好", "the cat sat", "Two dogs run"] * 5, "bpe", 320, symbols=["[MASK]"])
    tokenizer = SentencePieceTokenizer(vocabulary, lowercase=True)
    assert tokenizer.mask is not None
    assert tokenizer.encode(["", "  "]) == [[], []]
    [ids] = tokenizer.encode(["今天天气很[MASK]"])
    assert ids.count(tokenizer.mask) == 1
    assert tokenizer.decode(ids) == "今天天气很"
    assert tokenizer.encode(["The[MASK]"]) == tokenizer.encode(["the[MASK]"])
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(["the cat 犬"])[0])).decode() == " the cat 犬"
    assert read_tokenizer(tokenizer.files(), True).encode(["A [MASK] b"]) == tokenizer.encode(["a [MASK] b"])
    assert tokenizer.pieces(tokenizer.encode(["the [MASK] sat"])[0]) == [
        "▁the",
        "[MASK]",
        "▁sat",
    ]  # hidden with its space
    assert tokenizer.pieces(tokenizer.encode(["[MASK] sat"])[0]) == ["[MASK]", "▁sat"]
    assert train_vocabulary(["the cat sat"] * 5, "bpe", 290).mask is None
    assert [tokenizer.token_bytes(id) for id in (PAD, UNK, BOS, EOS, tokenizer.mask)] == [b""] * 5
    assert tokenizer.prompt("the cat") == [BOS, *tokenizer.encode(["the cat"])[0]]
