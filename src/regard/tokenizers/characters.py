"""A vocabulary of characters. Line breaks are tokens too, and nothing is normalised.

characters.txt    the characters in the order of their ids; the first has id 5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS, MASK_PIECE, PAD, UNK, checked_ids

FILE = "characters.txt"
MASK = 4
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>", MASK_PIECE)
UNKNOWN = "\ufffd"  # decoded from <unk>


class CharacterTokenizer:
    """Text ⇄ ids, one per character; `[MASK]` is one token."""

    pad, unk, begin, end = PAD, UNK, BOS, EOS
    mask: int | None = MASK

    def __init__(self, characters: str, lowercase: bool = False) -> None:
        if not characters or len(set(characters)) < len(characters):
            raise ConfigError(f"{FILE} must have at least one character, and each only once")
        self.characters, self.lowercase = characters, lowercase
        self.size = len(SPECIAL_PIECES) + len(characters)
        self._ids = {character: number for number, character in enumerate(characters, start=len(SPECIAL_PIECES))}

    @classmethod
    def of(cls, texts: Iterable[str], most: int = 0, lowercase: bool = False) -> CharacterTokenizer:
        """The characters of the texts, or the `most` frequent ones, in the order of Unicode."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text.lower() if lowercase else text)
        if not counts:
            raise ConfigError("cannot learn a vocabulary of characters: every line of the training text is empty")
        by_count = sorted(counts, key=lambda character: (-counts[character], character))
        by_count = [character for character in by_count if not "\ud800" <= character <= "\udfff"]  # surrogates
        chosen = by_count[:most] if most else by_count
        return cls("".join(sorted(chosen)), lowercase)

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that generation must not produce."""
        return PAD, UNK, BOS, MASK

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, part in enumerate(text.split(MASK_PIECE)):
            ids += [MASK] * (number > 0)
            ids += [self._ids.get(character, UNK) for character in (part.lower() if self.lowercase else part)]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, checked_ids(ids, self.size))).decode("utf-8")

    def token_bytes(self, id: int) -> bytes:
        """The UTF-8 bytes of a token; none for special tokens."""
        if id >= len(SPECIAL_PIECES):
            return self.characters[id - len(SPECIAL_PIECES)].encode("utf-8")
        return UNKNOWN.encode("utf-8") if id == UNK else b""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        first = len(SPECIAL_PIECES)
        return [SPECIAL_PIECES[i] if i < first else self.characters[i - first] for i in checked_ids(ids, self.size)]

    def prompt(self, text: str) -> list[int]:
        """The ids of a text to be continued."""
        return [BOS, *self._encode(text)]

    def files(self) -> dict[str, bytes]:
        return {FILE: self.characters.encode("utf-8")}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool) -> CharacterTokenizer:
        try:
            return cls(files[FILE].decode("utf-8"), lowercase)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{FILE} is not UTF-8 text (byte {error.start})") from None
