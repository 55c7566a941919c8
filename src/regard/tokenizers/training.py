"""Training a vocabulary: SentencePiece's BPE and unigram trainers, deterministic, quiet and bounded in memory.

The same sentences in the same order give the same model. Of more than `MOST_SENTENCES`, a random sample is used: the
pieces hardly change beyond that, and the trainer holds all its text in memory.

With `split_han`, every Han character is a piece of its own: it is never merged with another character. SentencePiece
also puts a space mark before every text ("▁the"), which would be a piece of its own before Chinese ("▁", "我"); a
vocabulary of mostly Han text is trained without it. Both properties are stored in the model file.
"""

from __future__ import annotations

import io
import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import sentencepiece

from regard.config import TokenizerKind
from regard.errors import ConfigError, DataError
from regard.text.normalise import normalise
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

MOST_SENTENCES = 1_000_000
MOST_BYTES = 8192  # of one sentence; the trainer skips longer ones, so they are split
SPECIALS_AND_BYTES = 4 + 256
PIECE_BOUNDARY = "\t"  # in training text: no piece crosses it; normalised text has none
HAN = lazy_pattern(f"([\u3005-\u3007{HAN_CHARACTERS}])")  # 々 and 〇 too
THREADS = 4  # fixed: the unigram trainer's sums depend on the number of threads


def train_vocabulary(
    sentences: Iterable[str],
    kind: TokenizerKind = "bpe",
    vocab_size: int = 8_000,
    character_coverage: float = 0.9998,
    seed: int = 1,
    most_sentences: int = MOST_SENTENCES,
    symbols: Sequence[str] = (),
    split_han: bool = False,
) -> SentencePieceModel:
    """A vocabulary of at most `vocab_size` pieces; fewer if there is too little text.

    Each of `symbols`, such as [MASK], is always one piece.
    """
    chosen = list(_split(_sample(iter(sentences), most_sentences, seed)))
    if not chosen:
        raise DataError("cannot train a vocabulary: every line of the training corpora is empty")
    han_settings: dict[str, Any] = {}
    if split_han:
        han_settings = {"pretokenization_delimiter": PIECE_BOUNDARY, "add_dummy_prefix": not _mostly_han(chosen)}
        chosen = [HAN.sub(rf"{PIECE_BOUNDARY}\1{PIECE_BOUNDARY}", sentence) for sentence in chosen]
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(chosen),
            model_writer=written,
            model_type=kind,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            user_defined_symbols=list(symbols),
            byte_fallback=True,
            normalization_rule_name="identity",  # normalise() has run
            remove_extra_whitespaces=False,
            split_digits=True,  # one piece per digit, so that any number can be copied
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            max_sentence_length=MOST_BYTES,
            num_threads=THREADS,
            minloglevel=3,
            **han_settings,
        )
    except (RuntimeError, ValueError) as error:
        raise _readable(error, vocab_size, character_coverage) from None
    return SentencePieceModel(written.getvalue())


def _sample(sentences: Iterator[str], most: int, seed: int) -> list[str]:
    """At most `most` of the sentences, each equally likely (reservoir sampling, Li's algorithm L)."""
    kept = list(islice(sentences, most))
    if len(kept) < most:
        return kept
    draw = random.Random(seed)
    threshold = 1.0
    while True:
        threshold *= math.exp(math.log(1 - draw.random()) / most)
        skip = math.floor(math.log(1 - draw.random()) / math.log1p(-threshold)) if threshold < 1 else 0
        following = next(islice(sentences, skip, None), None)
        if following is None:
            return kept
        kept[draw.randrange(most)] = following


def _split(sentences: Iterable[str]) -> Iterator[str]:
    """The normalised sentences, split to a length that the trainer accepts, without the character it rejects."""
    longest = MOST_BYTES // 4 - 4  # characters: none takes more than four bytes
    for sentence in sentences:
        text = normalise(sentence).replace("\u2585", "")  # ▅ is the trainer's internal symbol for unknown characters
        for start in range(0, len(text), longest):
            yield text[start : start + longest]


def _mostly_han(sentences: Iterable[str]) -> bool:
    """Whether more than half of the letters are Han characters."""
    han = letters = 0
    for sentence in sentences:
        han += len(HAN.findall(sentence))
        letters += sum(map(str.isalpha, sentence))
    return 2 * han > letters


def _readable(error: Exception, vocab_size: int, character_coverage: float) -> ConfigError:
    message = str(error)
    smaller = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if smaller:
        least = int(smaller[1])
        return ConfigError(
            f"data.tokenizer.vocab_size = {vocab_size} is too small: the text has {least - SPECIALS_AND_BYTES} "
            f"different characters within character_coverage = {character_coverage}, and with the bytes and "
            f"special pieces they need {least} pieces; set vocab_size to {least} or more, or lower character_coverage"
        )
    return ConfigError(f"SentencePiece could not learn a vocabulary of {vocab_size} pieces: {message}")
