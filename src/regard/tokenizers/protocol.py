"""The protocol that every tokenizer of a model of one text satisfies, and the reader of a model folder's tokenizer.

The files in a model folder determine the implementation:

    tokenizer.model            SentencePiece           sentencepiece.py
    characters.txt             characters              characters.py
    vocab.txt                  WordPiece (BERT)        wordpiece.py
    vocab.json, merges.txt     byte-level BPE (GPT-2, RoBERTa)  byte_level_bpe.py

Translators have a tokenizer for each language: pair.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.errors import ConfigError
from regard.tokenizers import byte_level_bpe, characters, wordpiece
from regard.tokenizers.byte_level_bpe import ByteLevelBpeTokenizer
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.sentencepiece import JOINT_FILE, SentencePieceTokenizer
from regard.tokenizers.wordpiece import WordPieceTokenizer


class Tokenizer(Protocol):
    """Text ⇄ ids, and the special ids."""

    @property
    def size(self) -> int: ...
    @property
    def lowercase(self) -> bool: ...
    @property
    def pad(self) -> int:
        """Fills the shorter rows of a batch."""

    @property
    def unk(self) -> int: ...
    @property
    def begin(self) -> int:
        """Begins a text: <s>, [CLS]."""

    @property
    def end(self) -> int:
        """Ends a text: </s>, [SEP]."""

    @property
    def mask(self) -> int | None:
        """The mask token, written "[MASK]" in a text; None if the vocabulary has none."""

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that generation must not produce."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without `begin` and `end`."""

    def decode(self, ids: Sequence[int]) -> str: ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The tokens as the vocabulary writes them, such as "▁the"."""

    def token_bytes(self, id: int) -> bytes:
        """The UTF-8 bytes that one token adds to a text; they may be part of a character."""

    def prompt(self, text: str) -> list[int]:
        """The ids of a text to be continued, after `begin` where the model was trained with it."""

    def files(self) -> dict[str, bytes]:
        """The contents of the files of a model folder, by name."""


def read_tokenizer(files: Mapping[str, bytes], lowercase: bool) -> Tokenizer:
    """The tokenizer stored in these files of a model folder."""
    names = set(files)
    if names == {JOINT_FILE}:
        return SentencePieceTokenizer.from_files(files, lowercase)
    if names == {characters.FILE}:
        return CharacterTokenizer.from_files(files, lowercase)
    if names == {wordpiece.FILE}:
        return WordPieceTokenizer.from_files(files, lowercase)
    if names == {byte_level_bpe.VOCABULARY_FILE, byte_level_bpe.MERGES_FILE}:
        return ByteLevelBpeTokenizer.from_files(files, lowercase)
    if not names:
        raise ConfigError(
            "this model has no tokenizer, so it cannot read text: import it again with its tokenizer files"
        )
    raise ConfigError(f"{' and '.join(sorted(names))} is not the tokenizer of a model of one text")
