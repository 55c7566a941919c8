"""The tokenizer of OPUS-MT: SentencePiece splits the text, and a separate list, vocab.json, assigns the ids.

vocab.json maps {piece: number}. Regard reorders the numbers so that padding is 0, unknown 1, begin 2 and end 3; the
other pieces follow in the order of the list, and the importers reorder the rows of the embeddings in the same way
(`listed_order`). Most lists have no begin token: Marian starts decoding with padding, so begin is a copy of padding.

A piece that is not in the list is unknown. With several target languages, a text begins with a tag, >>fra<<, which only
the list contains; the same holds for T5's sentinels, <extra_id_0>, which may occur anywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property

import sentencepiece

from regard.config.strict_json import parse_json
from regard.errors import ConfigError
from regard.text.patterns import lazy_pattern
from regard.tokenizers.bpe_dropout import BpeDropout
from regard.tokenizers.model_proto import model_kind
from regard.tokenizers.sentencepiece import PieceKind, SentencePieceModel
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

PAD_PIECE, UNK_PIECE, EOS_PIECE = "<pad>", "<unk>", "</s>"
START_PIECE = "<decoder-start>"  # begin, in the lists that Regard writes
LEAST_LISTED = 0.1  # share of a SentencePiece model's pieces; a list may have been pruned
NOT_A_MODEL = "this is not a SentencePiece model, or it is damaged"

_TAG = lazy_pattern(r">>[^<>]*<<")
_SENTINEL = lazy_pattern(r"(<extra_id_\d+>)")
_BYTE = lazy_pattern(r"<0x[0-9A-F]{2}>")


def read_list(content: bytes) -> dict[str, int]:
    """Parse a vocab.json; its numbers must be 0, 1, 2, … without a gap."""
    numbers = parse_json(content, "this list of pieces")
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise ConfigError("this list of pieces must be an object that gives each piece its number")
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise ConfigError("the numbers of this list of pieces must be 0, 1, 2 … without a gap and each only once")
    missing = [piece for piece in (PAD_PIECE, UNK_PIECE, EOS_PIECE) if piece not in numbers]
    if missing:
        raise ConfigError(f"this list of pieces has no {' and no '.join(missing)}")
    return numbers


def listed_order(numbers: Mapping[str, int]) -> list[int]:
    """For each of Regard's ids, the number of the same piece in the list."""
    start = numbers.get(START_PIECE, numbers[PAD_PIECE])
    first = [numbers[PAD_PIECE], numbers[UNK_PIECE], start, numbers[EOS_PIECE]]
    return [*first, *(number for number in range(len(numbers)) if number not in first)]


def check_overlap(pieces: Sequence[str], numbers: Mapping[str, int]) -> None:
    """Refuse a list of other pieces than those of the model: nearly every token would be unknown."""
    listed = sum(piece in numbers for piece in pieces)
    if listed < LEAST_LISTED * len(pieces):
        raise ConfigError(
            f"the SentencePiece model and the list do not belong together: {listed} of {len(pieces)} pieces are listed"
        )


class ListedSentencePiece(SentencePieceModel):
    """Pieces from SentencePiece, ids from a list."""

    def __init__(self, proto: bytes, listing: bytes) -> None:
        self.proto, self.listing = proto, listing
        try:
            self.kind = model_kind(proto)
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
            pieces = [self._processor.id_to_piece(id) for id in range(self._processor.vocab_size())]
        except (ValueError, RuntimeError, OSError):
            raise ConfigError(NOT_A_MODEL) from None
        if not pieces:  # nothing was loaded
            raise ConfigError(NOT_A_MODEL)
        numbers = read_list(listing)
        check_overlap(pieces, numbers)
        names = {number: piece for piece, number in numbers.items()}
        self._pieces = [names[number] for number in listed_order(numbers)]
        self._pieces[BOS] = START_PIECE
        self._ids = {piece: id for id, piece in enumerate(self._pieces)}
        self.size = len(self._pieces)
        self.tags = tuple(piece for piece in self._pieces if _TAG.fullmatch(piece))
        self._has_sentinels = any(map(_SENTINEL.fullmatch, self._pieces))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.proto + self.listing).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without BOS and EOS; SentencePiece normalises by the rules in its model."""
        return [[self._ids.get(piece, UNK) for piece in self._split(text)] for text in texts]

    def _split(self, text: str) -> list[str]:
        tag = _TAG.match(text) if self.tags else None
        if tag is not None:
            return [tag[0], *self._split_plain(text[tag.end() :])]
        if not self._has_sentinels:
            return self._split_plain(text)
        parts = _SENTINEL.split(text)  # plain, sentinel, plain, …
        return [p for i, part in enumerate(parts) for p in ([part] if i % 2 else self._split_plain(part))]

    def _split_plain(self, text: str) -> list[str]:
        try:
            pieces: list[str] = self._processor.encode(text, out_type=str)
        except UnicodeDecodeError:  # its rules of normalisation cut characters apart
            raise ConfigError(NOT_A_MODEL) from None
        return pieces

    def sample(self, texts: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        if amount > 0:
            raise ConfigError("data.tokenizer.dropout needs a SentencePiece tokenizer of Regard's own; set it to 0")
        return self.encode(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; special and unknown ids are skipped."""
        pieces = [self._pieces[i] for i in self._checked(ids) if i not in (PAD, UNK, BOS, EOS)]
        text: str = self._processor.decode_pieces(pieces)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in self._checked(ids)]

    @property
    def sentinels(self) -> list[int]:
        """The ids of the sentinels <extra_id_0>, <extra_id_1>, … (data/spans.py)."""
        numbered = {int(piece[10:-1]): id for piece, id in self._ids.items() if _SENTINEL.fullmatch(piece)}
        return [numbered[number] for number in sorted(numbered)]

    def kind_of(self, id: int) -> PieceKind:
        [i] = self._checked([id])
        piece = self._pieces[i]
        if i == UNK:
            return "unknown"
        if i in (PAD, BOS, EOS) or piece in self.tags or (self._has_sentinels and _SENTINEL.fullmatch(piece)):
            return "control"
        return "byte" if _BYTE.fullmatch(piece) else "normal"

    @property
    def merge_ranks(self) -> Mapping[str, float]:
        return self._merges.ranks

    @cached_property
    def _merges(self) -> BpeDropout:
        """The merges of the SentencePiece model, by its own ids."""
        processor, ids = self._processor, range(self._processor.vocab_size())
        whole = [processor.is_byte(i) or processor.is_control(i) or processor.is_unknown(i) for i in ids]
        return BpeDropout([processor.id_to_piece(i) for i in ids], [processor.get_score(i) for i in ids], whole)
