"""The tokenizer of a translator: one vocabulary per language, or a joint one.

The paper (section 5.1) shares one byte-pair vocabulary between source and target; so does the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.errors import ConfigError
from regard.tokenizers.listed_sentencepiece import ListedSentencePiece
from regard.tokenizers.sentencepiece import JOINT_FILE, SentencePieceModel

SOURCE_FILE, TARGET_FILE = "source.model", "target.model"
# OPUS-MT's file names. The second list exists only if each language has its own.
SOURCE_SPM, TARGET_SPM, LIST_FILE, TARGET_LIST_FILE = "source.spm", "target.spm", "vocab.json", "target_vocab.json"


class TokenizerPair:
    """The vocabularies of source and target; a joint vocabulary is the same object twice."""

    def __init__(self, src: SentencePieceModel, tgt: SentencePieceModel, lowercase: bool = False) -> None:
        self.src = src
        self.tgt = tgt
        self.lowercase = lowercase

    @property
    def joint(self) -> bool:
        return self.src is self.tgt

    def encode_src(self, texts: Sequence[str]) -> list[list[int]]:
        return self.src.encode(self._cased(texts))

    def encode_tgt(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tgt.encode(self._cased(texts))

    def sample_src(self, texts: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        return self.src.sample(self._cased(texts), amount, seed)

    def sample_tgt(self, texts: Sequence[str], amount: float, seed: int) -> list[list[int]]:
        return self.tgt.sample(self._cased(texts), amount, seed)

    def decode_src(self, ids: Sequence[int]) -> str:
        return self.src.decode(ids)

    def decode_tgt(self, ids: Sequence[int]) -> str:
        return self.tgt.decode(ids)

    def _cased(self, texts: Sequence[str]) -> Sequence[str]:
        return [text.lower() for text in texts] if self.lowercase else texts

    def files(self) -> dict[str, bytes]:
        """The contents of the files of a model folder, by name."""
        if isinstance(self.src, ListedSentencePiece) and isinstance(self.tgt, ListedSentencePiece):
            files = {SOURCE_SPM: self.src.proto, TARGET_SPM: self.tgt.proto, LIST_FILE: self.src.listing}
            return files if self.tgt.listing == self.src.listing else {**files, TARGET_LIST_FILE: self.tgt.listing}
        if self.joint:
            return {JOINT_FILE: self.src.proto}
        return {SOURCE_FILE: self.src.proto, TARGET_FILE: self.tgt.proto}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], lowercase: bool) -> TokenizerPair:
        """The tokenizer whose `files()` these are."""
        if JOINT_FILE in files:
            joint = _vocabulary(JOINT_FILE, files)
            return cls(joint, joint, lowercase)
        if {SOURCE_SPM, TARGET_SPM, LIST_FILE} <= files.keys():
            source = _listed(SOURCE_SPM, LIST_FILE, files)
            target = _listed(TARGET_SPM, TARGET_LIST_FILE if TARGET_LIST_FILE in files else LIST_FILE, files)
            return cls(source, target, lowercase)
        missing = [name for name in (SOURCE_FILE, TARGET_FILE) if name not in files]
        if missing:
            raise ConfigError(
                f"there is no {' and no '.join(missing)}; a tokenizer is {JOINT_FILE}, or both {SOURCE_FILE} and "
                f"{TARGET_FILE}"
            )
        return cls(_vocabulary(SOURCE_FILE, files), _vocabulary(TARGET_FILE, files), lowercase)


def _listed(name: str, listing: str, files: Mapping[str, bytes]) -> ListedSentencePiece:
    try:
        return ListedSentencePiece(files[name], files[listing])
    except ConfigError as error:
        raise ConfigError(f"{name} and {listing}: {error}") from None


def _vocabulary(name: str, files: Mapping[str, bytes]) -> SentencePieceModel:
    try:
        return SentencePieceModel(files[name])
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
