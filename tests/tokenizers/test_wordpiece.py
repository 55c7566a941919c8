"""BERT's tokenizer equals the reference for any text."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import BertTokenizer

from regard.errors import ConfigError
from regard.tokenizers.protocol import read_tokenizer
from regard.tokenizers.wordpiece import SPECIAL_PIECES, WordPieceTokenizer

WORDS = ["un", "##aff", "##able", "the", "cat", "##s", "a", "##a", "e", "##e", "u", "##u", "σ", "##σ", "é", "##é"]
SINGLE = [
    *"bcdlnrstxyz0123456789.,!?'-$^`~_()[]今天气很好的가か。，！？￥…—«»¿",
    "ᄀ",
    "##ᅡ",
    "##ı",
    "i",
    "##i",
    "##b",
    "##1",
]
PIECES = [*SPECIAL_PIECES, *WORDS, *SINGLE]
# Scripts whose characters are older than the tables of either side, and the signs that are treated specially.
SIGNS = "\x00\x07\t\n\x0b\r\x1c \x7f\x85\xa0\xad\u200b\u200d\u2003\u2028\ufeff\ufffd\ue000$^`~_[]ΣςİẞÅ가か今天😀𠀀"
TEXTS = st.text(
    st.one_of(st.characters(max_codepoint=0x52F), st.sampled_from(SIGNS + "unaffablecats今天气很好"))
).filter(lambda text: not any(piece in text for piece in SPECIAL_PIECES))


@cache
def real(lowercase: bool) -> BertTokenizer:
    return BertTokenizer(vocab={piece: number for number, piece in enumerate(PIECES)}, do_lower_case=lowercase)


@pytest.mark.parametrize("lowercase", [True, False])
@settings(deadline=None)
@given(text=TEXTS)
@example(text="Unaffable cats, 今天天气很好! naïve ΟΔΟΣ")
@example(text="a" * 100 + " " + "a" * 101)
def test_it_is_the_real_one(text: str, lowercase: bool) -> None:
    [ids] = WordPieceTokenizer(PIECES, lowercase).encode([text])
    assert ids == real(lowercase)(text, add_special_tokens=False)["input_ids"]


def test_a_mask_is_one_token_wherever_it_stands() -> None:
    tokenizer = WordPieceTokenizer(PIECES, lowercase=True)
    text = "今天天气很[MASK]。The [MASK]cats"
    [ids] = tokenizer.encode([text])
    assert ids == real(True)(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.pieces(ids) == [*"今天天气很", "[MASK]", "。", "the", "[MASK]", "cat", "##s"]


def test_back_to_text() -> None:
    tokenizer = WordPieceTokenizer(PIECES, lowercase=True)
    [ids] = tokenizer.encode(["The cats, 今天天气很好"])
    assert tokenizer.decode([tokenizer.begin, *ids, tokenizer.end]) == "the cats,今天天气很好"
    assert tokenizer.prompt("The cats, 今天天气很好") == [tokenizer.begin, *ids]


def test_it_survives_its_files() -> None:
    tokenizer = WordPieceTokenizer(PIECES, lowercase=False)
    again = read_tokenizer(tokenizer.files(), False)
    assert isinstance(again, WordPieceTokenizer)
    assert again.encode(["The cats今"]) == tokenizer.encode(["The cats今"])
    assert again.files() == tokenizer.files()
    assert again.size == len(PIECES)
    windows = {"vocab.txt": tokenizer.files()["vocab.txt"].replace(b"\n", b"\r\n")}
    assert read_tokenizer(windows, False).files() == tokenizer.files()


def test_what_is_no_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no \[CLS\] and no \[SEP\] and no \[MASK\]"):
        WordPieceTokenizer(["[PAD]", "[UNK]", "a"], lowercase=True)
    with pytest.raises(ConfigError, match=r"\[PAD\] in line 2"):
        WordPieceTokenizer(["a", *SPECIAL_PIECES], lowercase=True)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_tokenizer({"vocab.txt": b"\xff"}, False)
    with pytest.raises(ConfigError, match="is not the tokenizer"):
        read_tokenizer({"source.model": b""}, False)
    with pytest.raises(ConfigError, match="has no tokenizer, so it cannot read text: import it again"):
        read_tokenizer({}, False)
