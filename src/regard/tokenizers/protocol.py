"""What a model of one text, not of a pair, asks of its tokenizer: GPT and BERT, imported or trained here.

Four kinds, told apart by the files of a model folder:

    tokenizer.model            SentencePiece, as for translation           SentencePieceTokenizer, here
    characters.txt             a character a token                         characters.py
    vocab.txt                  BERT's                                      wordpiece.py
    vocab.json, merges.txt     GPT-2's                                     bytelevel.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.errors import ConfigError
from regard.text.normalise import SPACE_MARK
from regard.tokenizers import byte_level_bpe as bytelevel
from regard.tokenizers import characters, wordpiece
from regard.tokenizers.byte_level_bpe import ByteLevelBpeTokenizer
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.pair import JOINT_FILE
from regard.tokenizers.sentencepiece import BOS, EOS, MASK_PIECE, PAD, UNK, SentencePieceModel
from regard.tokenizers.wordpiece import WordPieceTokenizer


class Tokenizer(Protocol):
    """Text ⇄ ids, and the ids that stand for no text."""

    @property
    def size(self) -> int: ...
    @property
    def lowercase(self) -> bool: ...
    @property
    def pad(self) -> int:
        """What fills a shorter row of a batch."""

    @property
    def unk(self) -> int: ...
    @property
    def begin(self) -> int:
        """What stands before a text: <s>, [CLS]."""

    @property
    def end(self) -> int:
        """What stands after it: </s>, [SEP]."""

    @property
    def mask(self) -> int | None:
        """What stands for a hidden token, and for "[MASK]" in a text; None: there is none."""

    @property
    def never(self) -> tuple[int, ...]:
        """What generation must not write."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, neither `begin` nor `end` among them."""

    def decode(self, ids: Sequence[int]) -> str: ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The tokens as the vocabulary writes them."""

    def spell(self, id: int) -> bytes:
        """What one token adds to a text, as UTF-8: perhaps only a part of a character."""

    def prompt(self, text: str) -> list[int]:
        """The ids of a text that a model is to go on with, with what stands before a text where it was trained so."""

    def files(self) -> dict[str, bytes]:
        """What to write into a model folder, by file name."""


class SentencePieceTokenizer:
    """A SentencePiece vocabulary of one text. It normalises, so a text is one line to it."""

    pad, unk, begin, end = PAD, UNK, BOS, EOS

    def __init__(self, vocabulary: SentencePieceModel, lowercase: bool = False) -> None:
        self.vocabulary, self.lowercase = vocabulary, lowercase
        self.size, self.mask = vocabulary.size, vocabulary.mask

    @property
    def never(self) -> tuple[int, ...]:
        return (PAD, UNK, BOS) if self.mask is None else (PAD, UNK, BOS, self.mask)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.vocabulary.encode([self._cased(text) for text in texts])
        return encoded if self.mask is None else [self._without_space_before_mask(ids) for ids in encoded]

    def _without_space_before_mask(self, ids: list[int]) -> list[int]:
        """A hidden piece was hidden with its space; a space of its own before it would ask for something else."""
        following = [*ids, PAD][1:]
        pieces = zip(self.vocabulary.pieces(ids), ids, following, strict=True)
        return [id for piece, id, after in pieces if piece != SPACE_MARK or after != self.mask]

    def _cased(self, text: str) -> str:
        return MASK_PIECE.join(part.lower() for part in text.split(MASK_PIECE)) if self.lowercase else text

    def decode(self, ids: Sequence[int]) -> str:
        return self.vocabulary.decode([i for i in ids if i != self.mask])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return self.vocabulary.pieces(ids)

    def spell(self, id: int) -> bytes:
        [piece] = self.vocabulary.pieces([id])
        match self.vocabulary.kind_of(id):
            case "byte":
                return bytes.fromhex(piece[3:5])
            case "normal" if id != self.mask:
                return piece.replace(SPACE_MARK, " ").encode("utf-8")
        return b""

    def prompt(self, text: str) -> list[int]:
        return [BOS, *self.encode([text])[0]]

    def files(self) -> dict[str, bytes]:
        return {JOINT_FILE: self.vocabulary.proto}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool) -> SentencePieceTokenizer:
        return cls(SentencePieceModel(files[JOINT_FILE]), lowercase)


def read_tokenizer(files: Mapping[str, bytes], lowercase: bool) -> Tokenizer:
    """The tokenizer that the files of a model folder make."""
    names = set(files)
    if names == {JOINT_FILE}:
        return SentencePieceTokenizer.from_files(files, lowercase)
    if names == {characters.FILE}:
        return CharacterTokenizer.from_files(files, lowercase)
    if names == {wordpiece.FILE}:
        return WordPieceTokenizer.from_files(files, lowercase)
    if names == {bytelevel.VOCABULARY_FILE, bytelevel.MERGES_FILE}:
        return ByteLevelBpeTokenizer.from_files(files, lowercase)
    if not names:
        raise ConfigError(
            "this model has no tokenizer, so it cannot read a text: import it with one beside its weights"
        )
    raise ConfigError(f"{' and '.join(sorted(names))} is not the tokenizer of a model of one text")
