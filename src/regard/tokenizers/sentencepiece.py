"""SentencePiece: one model as half of a translator's tokenizer, and as the tokenizer of a model of one text.

Characters that are not in the vocabulary are encoded as bytes (byte fallback), so no text is unknown and
`decode(encode(text))` equals `normalise(text)` for every text.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count, takewhile
from typing import Literal, assert_never

import sentencepiece

from regard.errors import ConfigError
from regard.text.normalise import SPACE_MARK, normalise
from regard.tokenizers.bpe_dropout import BpeDropout
from regard.tokenizers.model_proto import model_kind
from regard.tokenizers.special_ids import BOS, EOS, MASK_PIECE, PAD, UNK, checked_ids

JOINT_FILE = "tokenizer.model"
PieceKind = Literal["normal", "byte", "control", "unknown"]

_WORTH_THREADS = 512  # texts: starting threads takes longer than encoding fewer

# SentencePiece has one seed for the whole process: only one thread at a time may set it and use it.
_sampling = threading.Lock()

_NOT_A_MODEL = (
    "this is not a SentencePiece model, or it is damaged; give a .model file that SentencePiece (spm_train) or Regard "
    "wrote"
)


def sentinel(number: int) -> str:
    """The sentinel token with this number (T5's span corruption)."""
    return f"<extra_id_{number}>"


class SentencePieceModel:
    """One SentencePiece model."""

    def __init__(self, proto: bytes) -> None:
        self.proto = proto
        try:
            self.kind = model_kind(proto)
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
            self.size: int = self._processor.vocab_size()
            # A ValueError where a piece is not UTF-8.
            self._pieces: list[str] = [self._processor.id_to_piece(id) for id in range(self.size)]
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
        """The ids of the sentinels <extra_id_0>, <extra_id_1>, …, if the vocabulary has them (data/spans.py)."""
        numbered = (self._processor.piece_to_id(sentinel(number)) for number in count())
        return list(takewhile(lambda id: id != UNK, numbered))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.proto).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text after normalisation, without BOS and EOS."""
        normalised = [normalise(text) for text in texts]
        if len(texts) < _WORTH_THREADS:  # a list, even of one text, would start a thread
            return [self._processor.encode(text) for text in normalised]
        ids: list[list[int]] = self._processor.encode(normalised, num_threads=-1)
        return ids

    def sample(self, texts: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        """A random segmentation of each text (subword regularisation), the same for the same seed.

        BPE-dropout with probability `amount` (Provilkov et al. 2020), or a sample from the unigram lattice with its
        probabilities raised to the power alpha (Kudo 2018), where alpha = 1 / amount − 1.
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
            # The generator is thread-local and is seeded when a thread first uses it: hence a new thread.
            thread = threading.Thread(target=draw)
            thread.start()
            thread.join()
        if len(drawn) != len(texts):
            raise RuntimeError("SentencePiece could not sample segmentations of this text")
        return drawn

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; PAD, BOS and EOS are skipped."""
        text: str = self._processor.decode([i for i in self._checked(ids) if i not in (PAD, BOS, EOS)])
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as SentencePiece writes them: "▁" for a space, "<0xE4>" for a byte."""
        return [self._pieces[i] for i in self._checked(ids)]

    def kind_of(self, id: int) -> PieceKind:
        """The kind of a piece; a byte is part of a character that is not in the vocabulary."""
        [i] = self._checked([id])
        if self._processor.is_byte(i):
            return "byte"
        if self._processor.is_unknown(i):
            return "unknown"
        return "control" if self._processor.is_control(i) else "normal"

    @property
    def merge_ranks(self) -> Mapping[str, float]:
        """The pieces that BPE merges can produce, with their ranks; the lowest is merged first."""
        return self._bpe_dropout.ranks

    def _checked(self, ids: Sequence[int]) -> list[int]:
        return checked_ids(ids, self.size)


class SentencePieceTokenizer:
    """The tokenizer of a model of one text. It normalises, so line breaks become spaces."""

    pad, unk, begin, end = PAD, UNK, BOS, EOS

    def __init__(self, vocabulary: SentencePieceModel, lowercase: bool = False) -> None:
        self.vocabulary, self.lowercase = vocabulary, lowercase
        self.size, self.mask = vocabulary.size, vocabulary.mask

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        return (PAD, UNK, BOS) if self.mask is None else (PAD, UNK, BOS, self.mask)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.vocabulary.encode([self._cased(text) for text in texts])
        return encoded if self.mask is None else [self._without_space_before_mask(ids) for ids in encoded]

    def _without_space_before_mask(self, ids: list[int]) -> list[int]:
        """Drop a lone space mark before [MASK]: the masked piece includes its space."""
        following = [*ids, PAD][1:]
        pieces = zip(self.vocabulary.pieces(ids), ids, following, strict=True)
        return [id for piece, id, after in pieces if piece != SPACE_MARK or after != self.mask]

    def _cased(self, text: str) -> str:
        return MASK_PIECE.join(part.lower() for part in text.split(MASK_PIECE)) if self.lowercase else text

    def decode(self, ids: Sequence[int]) -> str:
        return self.vocabulary.decode([i for i in ids if i != self.mask])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return self.vocabulary.pieces(ids)

    def token_bytes(self, id: int) -> bytes:
        [piece] = self.vocabulary.pieces([id])
        kind = self.vocabulary.kind_of(id)
        match kind:
            case "byte":
                return bytes.fromhex(piece[3:5])
            case "normal":
                return b"" if id == self.mask else piece.replace(SPACE_MARK, " ").encode("utf-8")
            case "control" | "unknown":
                return b""
            case _:
                assert_never(kind)

    def prompt(self, text: str) -> list[int]:
        return [BOS, *self.encode([text])[0]]

    def files(self) -> dict[str, bytes]:
        return {JOINT_FILE: self.vocabulary.proto}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool) -> SentencePieceTokenizer:
        return cls(SentencePieceModel(files[JOINT_FILE]), lowercase)
