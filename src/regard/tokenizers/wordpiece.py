"""BERT's tokenizer: words and punctuation marks, then the longest pieces of each word (Schuster & Nakajima 2012).

    vocab.txt    one piece per line, its id the line number from 0; "##" begins a piece that continues a word

Control characters are removed first; each Chinese character is a word; an uncased vocabulary is also without accents.
A word that the pieces cannot spell is [UNK].
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from regard.errors import ConfigError
from regard.tokenizers.special_ids import MASK_PIECE, checked_ids

FILE = "vocab.txt"
PAD_PIECE, UNK_PIECE, CLS_PIECE, SEP_PIECE = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
SPECIAL_PIECES = (PAD_PIECE, UNK_PIECE, CLS_PIECE, SEP_PIECE, MASK_PIECE)
CONTINUATION = "##"
LONGEST_WORD = 100  # characters; a longer one is unknown
# The ranges of Unicode's Chinese characters as BERT has them, the gap before the last but one included.
CHINESE = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


class WordPieceTokenizer:
    """Text ⇄ ids as BERT does it; `begin` and `end` are [CLS] and [SEP]."""

    def __init__(self, pieces: Sequence[str], lowercase: bool) -> None:
        self.lowercase = lowercase
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        self.size = len(self._pieces)
        missing = [piece for piece in SPECIAL_PIECES if piece not in self._ids]
        if missing:
            raise ConfigError(f"{FILE} has no {' and no '.join(missing)}; it is not a vocabulary of BERT")
        self.pad, self.unk, self.begin, self.end, self.mask = (self._ids[piece] for piece in SPECIAL_PIECES)
        if self.pad != 0:
            raise ConfigError(f"{FILE} has {PAD_PIECE} in line {self.pad + 1}; Regard needs it in line 1")
        self._word_ids = lru_cache(maxsize=100_000)(self._split_word)

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that generation must not produce."""
        return self.pad, self.unk, self.begin, self.end, self.mask

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without [CLS] and [SEP]; [MASK] in a text is the mask token."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, part in enumerate(text.split(MASK_PIECE)):
            ids += [self.mask] * (number > 0)
            for word in words(part, self.lowercase):
                ids += self._word_ids(word)
        return ids

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Greedy longest match first: the longest piece that begins the word, then the rest likewise."""
        if len(word) > LONGEST_WORD:
            return (self.unk,)
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            candidates = ((end, self._ids.get(prefix + word[start:end])) for end in range(len(word), start, -1))
            end, piece = next(((end, i) for end, i in candidates if i is not None), (start, None))
            if piece is None:
                return (self.unk,)
            found.append(piece)
            start = end
        return tuple(found)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in checked_ids(ids, self.size)]

    def token_bytes(self, id: int) -> bytes:
        """The UTF-8 bytes of a token: a word after a space, or the continuation of one."""
        piece = self._pieces[id]
        if id in self.suppressed_ids:
            return b""
        joined = piece.startswith(CONTINUATION) or is_chinese(piece[0]) or is_punctuation(piece[0])
        return f"{'' if joined else ' '}{piece.removeprefix(CONTINUATION)}".encode()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these pieces; BERT discards spaces, so they are placed by rule."""
        return b"".join(map(self.token_bytes, checked_ids(ids, self.size))).decode("utf-8").removeprefix(" ")

    def prompt(self, text: str) -> list[int]:
        return [self.begin, *self._encode(text)]

    def files(self) -> dict[str, bytes]:
        return {FILE: "".join(f"{piece}\n" for piece in self._pieces).encode("utf-8")}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool) -> WordPieceTokenizer:
        try:
            lines = files[FILE].decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{FILE} is not UTF-8 text (byte {error.start})") from None
        if lines[-1] == "":
            lines.pop()
        return cls([line.removesuffix("\r") for line in lines], lowercase)


def words(text: str, lowercase: bool) -> Iterator[str]:
    """The words, Chinese characters and punctuation marks of a text, cleaned."""
    text = "".join(f" {c} " if is_chinese(c) else " " if is_space(c) else c for c in text if not is_removed(c))
    if lowercase:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = "".join(c.lower() for c in text)  # one by one: at a word's end Python would make ς of Σ
    for word in text.split(" "):
        start = 0
        for place, character in enumerate(word):
            if is_punctuation(character):
                if place > start:
                    yield word[start:place]
                yield character
                start = place + 1
        if start < len(word):
            yield word[start:]


def is_removed(character: str) -> bool:
    """Control, format and private-use characters, NUL and the replacement character."""
    if character in "\t\n\r":
        return False
    return character in "\x00\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")


def is_space(character: str) -> bool:
    return character in "\t\n\r" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def is_chinese(character: str) -> bool:
    code = ord(character)
    return code >= CHINESE[0][0] and any(low <= code <= high for low, high in CHINESE)


def is_punctuation(character: str) -> bool:
    """Unicode punctuation, and every ASCII character that is neither letter nor digit nor space."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
