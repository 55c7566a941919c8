"""GPT-2's tokenizer: byte-pair encoding of UTF-8 bytes (Radford et al. 2019, section 2.2), so no text is unknown.

RoBERTa's (Liu et al. 2019), which Longformer has too, is the same with other special tokens.

    vocab.json    {piece: id}
    merges.txt    one pair of pieces per line, the earliest learnt first; a first line that begins "#version" is ignored

In both, each byte is written as a printable character: "Ġ" is a space. A text is first split into words, numbers and
runs of other characters, each with the space before it; pieces never cross these boundaries.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from regard.config.strict_json import parse_json
from regard.errors import ConfigError
from regard.tokenizers.special_ids import MASK_PIECE, checked_ids

VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
END_PIECE = "<|endoftext|>"
PAD_PIECE, UNK_PIECE, BEGIN_PIECE, SEPARATOR_PIECE, BLANK_PIECE = ROBERTA = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
# Unicode's White_Space; Python's isspace() includes four more control characters.
SPACES = frozenset(
    [*map(chr, range(0x09, 0x0E)), *map(chr, range(0x2000, 0x200B)), *" \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"]
)


def visible_bytes() -> list[str]:
    """The character that each byte is written as: itself if printable, else the next one from U+0100 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in seen else chr(next(others)) for byte in range(256)]


VISIBLE = visible_bytes()
BYTES = {character: byte for byte, character in enumerate(VISIBLE)}


class ByteLevelBpeTokenizer:
    """Text ⇄ ids as GPT-2 does it; one special token, <|endoftext|>, separates texts. Or with RoBERTa's five."""

    lowercase = False

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        self.size = len(vocabulary)
        if sorted(vocabulary.values()) != list(range(self.size)):
            raise ConfigError(f"{VOCABULARY_FILE} does not have every id from 0 to {self.size - 1} once")
        lacking = [character for character in VISIBLE if character not in vocabulary]
        if lacking:
            raise ConfigError(f"{VOCABULARY_FILE} has no piece for {len(lacking)} of the bytes, such as {lacking[0]!r}")
        self._ids, self._merges = dict(vocabulary), list(merges)
        self._pieces = sorted(vocabulary, key=vocabulary.__getitem__)
        self._ranks = {pair: rank for rank, pair in enumerate(self._merges)}
        for left, right in self._merges:
            if left + right not in self._ids:
                raise ConfigError(f"{MERGES_FILE} produces {left + right!r}, which is not in {VOCABULARY_FILE}")
        self.mask: int | None = None
        if END_PIECE in self._ids:
            # No separate padding: nothing attends to positions after the end of a text.
            self.pad = self.unk = self.begin = self.end = self._ids[END_PIECE]
        elif all(piece in self._ids for piece in ROBERTA):
            self.pad, self.unk, self.begin, self.end, self.mask = (self._ids[piece] for piece in ROBERTA)
            if self.pad != 0:
                raise ConfigError(f"{VOCABULARY_FILE} gives {PAD_PIECE} the id {self.pad}; Regard needs it to be 0")
        else:
            raise ConfigError(f"{VOCABULARY_FILE} has neither {END_PIECE} nor all of {', '.join(ROBERTA)}")
        self._word_ids = lru_cache(maxsize=100_000)(self._merge)

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        return () if self.mask is None else (self.pad, self.unk, self.begin, self.end, self.mask)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; where there is a mask token, [MASK] in a text is it, without the space before it."""
        if self.mask is None:
            return [self._encode(text) for text in texts]
        return [self._encode_masked(text.split(MASK_PIECE), self.mask) for text in texts]

    def _encode(self, text: str) -> list[int]:
        return [i for word in words(text) for i in self._word_ids(word)]

    def _encode_masked(self, parts: Sequence[str], mask: int) -> list[int]:
        ids = self._encode(parts[-1])
        for part in reversed(parts[:-1]):
            ids = [*self._encode(part.rstrip()), mask, *ids]
        return ids

    def _merge(self, word: str) -> tuple[int, ...]:
        """Merge the bytes of a word: the adjacent pair that was learnt earliest first, until no pair is left."""
        symbols = [VISIBLE[byte] for byte in word.encode("utf-8", "replace")]
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            joined: list[str] = []
            place = 0
            while place < len(symbols):
                whole = tuple(symbols[place : place + 2]) == best
                joined.append(best[0] + best[1] if whole else symbols[place])
                place += 2 if whole else 1
            symbols = joined
        return tuple(self._ids[symbol] for symbol in symbols)

    def token_bytes(self, id: int) -> bytes:
        """The bytes of a token, not always whole characters."""
        if id == self.end or id in self.suppressed_ids:
            return b""
        return b"".join(character_bytes(character) for character in self._pieces[id])

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, checked_ids(ids, self.size))).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in checked_ids(ids, self.size)]

    def prompt(self, text: str) -> list[int]:
        """The ids of a text to be continued; for an empty text, <|endoftext|>."""
        [ids] = self.encode([text])
        return ids or [self.end]

    def files(self) -> dict[str, bytes]:
        merges = "".join(f"{left} {right}\n" for left, right in self._merges)
        return {
            VOCABULARY_FILE: json.dumps(self._ids, ensure_ascii=False).encode("utf-8"),
            MERGES_FILE: f"#version: 0.2\n{merges}".encode(),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool = False) -> ByteLevelBpeTokenizer:
        return cls(*read_files(files))


def read_files(files: Mapping[str, bytes]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ids of the pieces, and the merges."""
    vocabulary = parse_json(files[VOCABULARY_FILE], VOCABULARY_FILE)
    if not isinstance(vocabulary, dict) or not all(type(i) is int for i in vocabulary.values()):
        raise ConfigError(f"{VOCABULARY_FILE} must be a JSON object that maps pieces to ids")
    try:
        lines = files[MERGES_FILE].decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{MERGES_FILE} is not UTF-8 text (byte {error.start})") from None
    return vocabulary, read_merges(lines)


def read_merges(lines: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of merges.txt."""
    merges = []
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not space or not left or not right or " " in right:
            raise ConfigError(f"{MERGES_FILE}, line {number}: {line!r} is not two pieces with a space between")
        merges.append((left, right))
    return merges


def character_bytes(character: str) -> bytes:
    """The byte that a character of a piece represents; a character of an added token represents itself."""
    return bytes([BYTES[character]]) if character in BYTES else character.encode("utf-8")


def words(text: str) -> Iterator[str]:
    """The parts of a text that pieces do not cross; joined, they are the text."""
    place = 0
    while place < len(text):
        end = word_end(text, place)
        yield text[place:end]
        place = end


def word_end(text: str, start: int) -> int:
    """The end of the part that begins at `start`."""
    for contraction in CONTRACTIONS:
        if text.startswith(contraction, start):
            return start + len(contraction)
    first = start + 1 if text[start] == " " and start + 1 < len(text) else start
    kind = kind_of(text[first])
    if kind != "space":
        return run_end(text, first, kind)
    end = run_end(text, start, "space")
    # The last space of a run belongs to the next word.
    return end if end == len(text) or end == start + 1 else end - 1


def run_end(text: str, start: int, kind: str) -> int:
    end = start + 1
    while end < len(text) and kind_of(text[end]) == kind:
        end += 1
    return end


def kind_of(character: str) -> str:
    if character in SPACES:
        return "space"
    category = unicodedata.category(character)[0]
    return {"L": "letter", "N": "number"}.get(category, "sign")
