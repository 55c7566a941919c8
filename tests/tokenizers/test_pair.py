"""Vocabularies and tokenizer pairs: round trips, sampling, files, and error messages."""

import io
import random

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError, DataError
from regard.text.normalise import normalise
from regard.tokenizers.model_proto import model_kind
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import BOS, EOS, PAD
from regard.tokenizers.training import train_vocabulary

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "runs", "running", "我", "爱", "你", "猫", "坐在", "垫子", "上"]
WORDS += ["。", "<s>", "x<s>y", "</s>", "<unk>", "<0x41>", "2024", "3.14"]


def sentences(count: int = 400, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]


BPE = train_vocabulary(iter(sentences()), "bpe", 330)
UNIGRAM = train_vocabulary(iter(sentences()), "unigram", 310)
BOTH = pytest.mark.parametrize("vocabulary", [BPE, UNIGRAM], ids=["bpe", "unigram"])


@BOTH
@settings(max_examples=300, deadline=None)
@given(
    text=st.text(st.one_of(st.characters(), st.sampled_from(" thecat我爱😀\u200d\ufe0f▁▅⁇<s>0x41\t\x00\ufffd\ud800")))
)
@example(text="<s></s><unk><pad><0x41>▁<0xE4> ▅⁇")
@example(text="  leading and  inner   spaces ")
@example(text="\uffff\ufffe\U0010ffff\ufffd")
def test_round_trip_of_any_text(vocabulary: SentencePieceModel, text: str) -> None:
    [ids] = vocabulary.encode([text])
    assert vocabulary.decode(ids) == normalise(text)
    assert all(i > EOS for i in ids)
    [drawn] = vocabulary.sample([text], 0.3, seed=1)
    assert vocabulary.decode(drawn) == normalise(text)


@BOTH
def test_sampling_follows_its_seed(vocabulary: SentencePieceModel) -> None:
    texts = sentences(200, seed=2)
    first = vocabulary.sample(texts, 0.9, seed=7)
    vocabulary.sample(texts, 0.9, seed=8)
    assert vocabulary.sample(texts, 0.9, seed=7) == first
    assert vocabulary.sample(texts, 0.9, seed=8) != first
    assert first != vocabulary.encode(texts)
    assert vocabulary.sample(texts, 0.0, seed=7) == vocabulary.encode(texts)
    assert vocabulary.sample([], 0.9, seed=7) == []


def test_more_dropout_means_more_pieces() -> None:
    texts = sentences(200, seed=2)
    counts = [sum(map(len, BPE.sample(texts, amount, seed=1))) for amount in (0.0, 0.1, 0.5, 0.9)]
    assert counts == sorted(counts)
    assert len(set(counts)) == 4


@BOTH
def test_special_ids_are_silent_and_wrong_ids_are_named(vocabulary: SentencePieceModel) -> None:
    [ids] = vocabulary.encode(["the cat"])
    assert vocabulary.decode([BOS, *ids, EOS, PAD, PAD]) == "the cat"
    assert "".join(vocabulary.pieces(ids)) == "▁the▁cat"
    for wrong in (-1, vocabulary.size):
        with pytest.raises(ValueError, match=rf"id {wrong} .* 0 to {vocabulary.size - 1}"):
            vocabulary.decode([wrong])
        with pytest.raises(ValueError, match="not in this vocabulary"):
            vocabulary.pieces([wrong])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_is_deterministic_and_silent(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    again = train_vocabulary(sentences(), kind, 330 if kind == "bpe" else 310)  # type: ignore[arg-type]
    assert again.proto == (BPE if kind == "bpe" else UNIGRAM).proto
    assert again.kind == model_kind(again.proto) == kind
    assert len(again.sha256) == 64
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_little_text_gives_a_smaller_vocabulary(kind: str) -> None:
    small = train_vocabulary(["a b c", "▅", "a\tb"], kind, 8000)  # type: ignore[arg-type]
    assert 260 < small.size < 300
    assert small.decode(small.encode(["a b 我"])[0]) == "a b 我"


def test_too_many_characters_for_the_vocabulary() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size = 300 is too small: the text has 501 .* set vocab_size to 761"):
        train_vocabulary([chr(0x4E00 + i) for i in range(500)], "bpe", 300, character_coverage=1.0)


def test_what_the_trainer_refuses_is_said() -> None:
    with pytest.raises(ConfigError, match=r"could not learn a vocabulary of 300 pieces: .*\[MASK\] is already defined"):
        train_vocabulary(["the cat sat"], "bpe", 300, symbols=["[MASK]", "[MASK]"])


def test_no_text() -> None:
    with pytest.raises(DataError, match="every line of the training corpora is empty"):
        train_vocabulary(["", "  "], "bpe", 300)


def test_a_very_long_line_is_learnt_from() -> None:
    assert "▁hello" in train_vocabulary(["hello world " * 5000], "bpe", 300).pieces(range(260, 280))


def test_a_sample_of_many_sentences_is_bounded_fair_and_deterministic() -> None:
    lines = ["early bird"] * 1000 + ["late worm"] * 1000
    first = train_vocabulary(lines, "bpe", 300, seed=3, most_sentences=50)
    assert first.proto == train_vocabulary(lines, "bpe", 300, seed=3, most_sentences=50).proto
    assert {"▁early", "▁late"} <= set(first.pieces(range(first.size)))


@pytest.mark.parametrize("proto", [b"", b"hello", b"\xff" * 40, BPE.proto[: len(BPE.proto) // 2]])
def test_a_malformed_model(proto: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^tokenizer\.model: this is not a SentencePiece model, or it is damaged"):
        TokenizerPair.from_files({"tokenizer.model": proto}, lowercase=False)


def test_joint_files() -> None:
    tokenizer = TokenizerPair(BPE, BPE, lowercase=True)
    assert tokenizer.joint
    assert tokenizer.files() == {"tokenizer.model": BPE.proto}
    again = TokenizerPair.from_files(tokenizer.files(), lowercase=True)
    assert again.joint
    assert again.encode_src(["The CAT"]) == BPE.encode(["the cat"])
    assert again.decode_tgt(again.encode_tgt(["The CAT"])[0]) == "the cat"
    assert again.decode_src(again.sample_src(["The CAT"], 0.5, 1)[0]) == "the cat"
    assert again.decode_src(again.sample_tgt(["The CAT"], 0.5, 1)[0]) == "the cat"


def test_separate_files() -> None:
    tokenizer = TokenizerPair(BPE, UNIGRAM)
    assert not tokenizer.joint
    again = TokenizerPair.from_files(tokenizer.files(), lowercase=False)
    assert (again.src.kind, again.tgt.kind) == ("bpe", "unigram")
    with pytest.raises(ConfigError, match=r"there is no target\.model"):
        TokenizerPair.from_files({"source.model": BPE.proto}, lowercase=False)


def test_a_model_with_other_special_ids() -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()), model_writer=written, vocab_size=60, minloglevel=3, hard_vocab_limit=False
    )
    with pytest.raises(ConfigError, match=r"pad, unk, bos, eos = \(-1, 0, 1, 2\).*--pad_id=0"):
        SentencePieceModel(written.getvalue())
