"""GPT-2's tokenizer equals the reference for any text, and is lossless."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Tokenizer

from regard.errors import ConfigError
from regard.tokenizers.byte_level_bpe import END_PIECE, VISIBLE, ByteLevelBpeTokenizer, words
from regard.tokenizers.protocol import read_tokenizer

TRAINED_ON = [
    "the cat sat on the mat, isn't it?  they'll say 2024",
    "今天天气很好，我们去公园。",
    "naïve café 😀😀",
] * 3
# Characters older than the tables of either side; the spaces and signs that the cuts look at.
TEXTS = st.text(
    st.one_of(
        st.characters(max_codepoint=0x52F),
        st.sampled_from("thecatsondlvr' \n\t\u2003\x1c\x85今天气很好，。😀²Ⅷ½"),
    )
).filter(lambda text: END_PIECE not in text)


@cache
def learnt() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary trained with the reference library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=[END_PIECE], show_progress=False
    )
    tokenizer.train_from_iterator(TRAINED_ON, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


@cache
def real() -> GPT2Tokenizer:
    vocabulary, merges = learnt()
    return GPT2Tokenizer(vocab=vocabulary, merges=merges)


@cache
def ours() -> ByteLevelBpeTokenizer:
    return ByteLevelBpeTokenizer(*learnt())


@settings(deadline=None)
@given(text=TEXTS)
@example(text="  they're   I'LL don't 's\n\n a")
@example(text="' 's '' 'd'll ")
def test_it_is_the_real_one(text: str) -> None:
    [ids] = ours().encode([text])
    assert ids == real()(text)["input_ids"]
    assert ours().decode(ids) == text


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 399)))
def test_any_tokens_are_some_text(ids: list[int]) -> None:
    ids = [i for i in ids if i < ours().size and i != ours().end]
    assert ours().decode(ids) == real().decode(ids, clean_up_tokenization_spaces=False)


@settings(deadline=None)
@given(text=st.text())
def test_splitting_loses_nothing(text: str) -> None:
    assert "".join(words(text)) == text


def test_merges_were_learnt_at_all() -> None:
    assert len(learnt()[1]) > 50
    [ids] = ours().encode([" the"])
    assert len(ids) == 1
    assert ours().pieces(ids) == ["Ġthe"]


def test_a_prompt_is_the_text_alone_and_of_nothing_the_end() -> None:
    assert ours().prompt("the") == ours().encode(["the"])[0]
    assert ours().prompt("") == [ours().end]


def test_it_survives_its_files() -> None:
    again = read_tokenizer(ours().files(), False)
    assert isinstance(again, ByteLevelBpeTokenizer)
    assert again.encode(TRAINED_ON) == ours().encode(TRAINED_ON)
    assert again.files() == ours().files()


def test_what_is_no_vocabulary_is_refused() -> None:
    letters = {character: number for number, character in enumerate(VISIBLE)}
    with pytest.raises(ConfigError, match=r"neither <\|endoftext\|>"):
        ByteLevelBpeTokenizer(letters, [])
    whole = {**letters, END_PIECE: 256}
    with pytest.raises(ConfigError, match="produces 'ab'"):
        ByteLevelBpeTokenizer(whole, [("a", "b")])
    with pytest.raises(ConfigError, match="every id from 0 to 256"):
        ByteLevelBpeTokenizer({**whole, END_PIECE: 300}, [])
    with pytest.raises(ConfigError, match="no piece for 255 of the bytes"):
        ByteLevelBpeTokenizer({"a": 0, END_PIECE: 1}, [])
    good = ByteLevelBpeTokenizer(whole, []).files()
    with pytest.raises(ConfigError, match=r"merges\.txt, line 2: 'a b c' is not two pieces"):
        ByteLevelBpeTokenizer.from_files({**good, "merges.txt": b"#version: 0.2\na b c\n"})
    with pytest.raises(ConfigError, match="is not JSON"):
        ByteLevelBpeTokenizer.from_files({**good, "vocab.json": b"{"})
    with pytest.raises(ConfigError, match="maps pieces to ids"):
        ByteLevelBpeTokenizer.from_files({**good, "vocab.json": b'{"a": "b"}'})
    with pytest.raises(ConfigError, match=r"merges\.txt is not UTF-8 text \(byte 2\)"):
        ByteLevelBpeTokenizer.from_files({**good, "merges.txt": b"a \xff\n"})


def test_the_special_pieces_of_roberta() -> None:
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", *VISIBLE]
    tokenizer = ByteLevelBpeTokenizer({piece: number for number, piece in enumerate(pieces)}, [])
    assert (tokenizer.pad, tokenizer.unk, tokenizer.begin, tokenizer.end, tokenizer.mask) == (0, 1, 2, 3, 4)
    pieces[:2] = ["<unk>", "<pad>"]
    with pytest.raises(ConfigError, match=r"vocab\.json gives <pad> the id 1; Regard needs it to be 0"):
        ByteLevelBpeTokenizer({piece: number for number, piece in enumerate(pieces)}, [])
