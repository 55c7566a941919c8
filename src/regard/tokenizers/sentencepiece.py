"""One SentencePiece model: text ⇄ ids.

Bytes stand in for characters that the vocabulary lacks, so nothing is ever unknown and `decode(encode(text))` is
`normalise(text)` for any text at all.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count, takewhile
from typing import Literal

import sentencepiece

from regard.errors import ConfigError
from regard.text.normalise import normalise
from regard.tokenizers.bpe_dropout import BpeDropout
from regard.tokenizers.model_proto import model_kind

PAD, UNK, BOS, EOS = 0, 1, 2, 3
MASK_PIECE = "[MASK]"  # what stands for a hidden piece, in vocabularies that have it
PieceKind = Literal["normal", "byte", "control", "unknown"]

_WORTH_THREADS = 512  # texts: starting threads takes longer than encoding fewer

# SentencePiece has one seed for the whole process: only one thread at a time may set it and use it.
_sampling = threading.Lock()

_NOT_A_MODEL = (
    "this is not a SentencePiece model, or it is damaged; give a .model file that SentencePiece (spm_train) or Regard "
    "wrote"
)


def sentinel(number: int) -> str:
    """What stands for the gap of this number, in vocabularies that have it."""
    return f"<extra_id_{number}>"


class SentencePieceModel:
    """One SentencePiece model."""

    def __init__(self, proto: bytes) -> None:
        self.proto = proto
        try:
            self.kind = model_kind(proto)
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
            self.size: int = self._processor.vocab_size()
        except (ValueError, RuntimeError, OSError):
            raise ConfigError(_NOT_A_MODEL) from None
        if not self.size:
            raise ConfigError(_NOT_A_MODEL)
        ids = self._processor.pad_id(), self._processor.unk_id(), self._processor.bos_id(), self._processor.eos_id()
        if ids != (PAD, UNK, BOS, EOS):
            raise ConfigError(
                f"this SentencePiece model has pad, unk, bos, eos = {ids}, where Regard needs {(PAD, UNK, BOS, EOS)}; "
                "train it with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3, or let Regard train one"
            )

    @property
    def mask(self) -> int | None:
        """The id of [MASK], which a vocabulary has when it was trained with it (`train_vocabulary(symbols=…)`)."""
        found: int = self._processor.piece_to_id(MASK_PIECE)
        return found if self._processor.id_to_piece(found) == MASK_PIECE else None

    @property
    def sentinels(self) -> list[int]:
        """The ids of <extra_id_0>, <extra_id_1> and so on, if it was trained with them: for gaps (data/spans.py)."""
        numbered = (self._processor.piece_to_id(sentinel(number)) for number in count())
        return list(takewhile(lambda id: id != UNK, numbered))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.proto).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, which is normalised first; neither BOS nor EOS is added."""
        normalised = [normalise(text) for text in texts]
        threads = 1 if len(texts) < _WORTH_THREADS else -1
        ids: list[list[int]] = self._processor.encode(normalised, num_threads=threads)
        return ids

    def sample(self, texts: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        """Another segmentation of each text, drawn at random: the same for the same seed.

        BPE-dropout with probability `amount` (Provilkov et al. 2020), or a draw from the unigram lattice with its
        probabilities to the power of alpha (Kudo 2018), where alpha = 1 / amount − 1: 0.5 is the lattice as it is.
        """
        if not texts or amount <= 0:
            return self.encode(texts)
        if self.kind == "bpe":
            return self._bpe_dropout.sample(self.encode(texts), amount, seed)
        return self._sample_unigram([normalise(text) for text in texts], 1 / amount - 1, seed)

    @cached_property
    def _bpe_dropout(self) -> BpeDropout:
        ids, processor = range(self.size), self._processor
        whole = [
            processor.is_byte(i) or processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i)
            for i in ids
        ]
        return BpeDropout(self.pieces(ids), [processor.get_score(i) for i in ids], whole)

    def _sample_unigram(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        drawn: list[list[int]] = []

        def draw() -> None:
            drawn.extend(self._processor.encode(texts, enable_sampling=True, nbest_size=-1, alpha=alpha, num_threads=1))

        with _sampling:
            sentencepiece.set_random_generator_seed(seed % 2**32)
            # The generator is thread-local and takes the seed when a thread first uses it: hence a new thread.
            thread = threading.Thread(target=draw)
            thread.start()
            thread.join()
        if len(drawn) != len(texts):
            raise RuntimeError("SentencePiece could not sample segmentations of this text")
        return drawn

    def decode(self, ids: Sequence[int]) -> str:
        """The text that ids stand for; PAD, BOS and EOS stand for nothing."""
        text: str = self._processor.decode([i for i in self._checked(ids) if i not in (PAD, BOS, EOS)])
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as SentencePiece writes them: "▁" for a space, "<0xE4>" for a byte."""
        return [self._processor.id_to_piece(i) for i in self._checked(ids)]

    def kind_of(self, id: int) -> PieceKind:
        """What sort of piece it is; a byte stands in for part of a character that has no piece."""
        [i] = self._checked([id])
        if self._processor.is_byte(i):
            return "byte"
        if self._processor.is_unknown(i):
            return "unknown"
        return "control" if self._processor.is_control(i) else "normal"

    @property
    def merge_ranks(self) -> Mapping[str, float]:
        """Of a BPE vocabulary: the pieces that merging can make, with their ranks, the lower the earlier."""
        return self._bpe_dropout.ranks

    def _checked(self, ids: Sequence[int]) -> list[int]:
        return checked_ids(ids, self.size)


def checked_ids(ids: Sequence[int], size: int) -> list[int]:
    """The ids, if a vocabulary of this size has them all."""
    whole = [int(i) for i in ids]
    for i in whole:
        if not 0 <= i < size:
            raise ValueError(f"id {i} is not in this vocabulary: its ids go from 0 to {size - 1}")
    return whole
