"""What tells whether a corpus is the same as it was: its kind, the part that is taken, and the content of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.config import SYNTHETIC, CorpusConfig
from regard.data.content_cache import content_hash
from regard.data.corpus import corpus_files, corpus_name, corpus_path, file_format, is_part
from regard.errors import DataError


def identity(corpus: CorpusConfig) -> dict[str, Any]:
    """Equal for equal examples; paths and times take no part. The files are read, once per process."""
    if corpus.text:
        path = corpus_path(corpus, corpus.text)
        return {"text": described(path), "cut": [corpus.whole_file, corpus.column, corpus.start, corpus.stop]}
    cut: dict[str, Any] = {"prefix": corpus.prefix} if corpus.prefix else {}
    if is_part(corpus):
        cut["part"] = [corpus.start, corpus.stop, corpus.seed if corpus.shuffle else None]
    if corpus.toy:
        sizes = {"length": corpus.length, "pairs": corpus.pairs, "symbols": corpus.symbols}
        shape = sizes if corpus.toy in SYNTHETIC else {}
        return {"toy": corpus.toy, "size": corpus.size, "seed": corpus.seed, **shape, **cut}
    if corpus.images:
        names = filter(None, (corpus.images, corpus.labels))
        return {"images": [described(corpus_path(corpus, name)) for name in names], **cut}
    kind = {"form": file_format(corpus)} if corpus.file else {}
    fields = [corpus.src_field, corpus.tgt_field]
    return {"files": [described(path) for path in corpus_files(corpus)], "fields": fields, **kind, **cut}


def described(path: Path) -> list[str]:
    """The content of a file and how it is packed, or of all files of a folder."""
    if not path.is_dir():
        return [content_hash(path), path.suffix if path.suffix in (".gz", ".zst") else ""]
    found = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        found.update(f"{file.relative_to(path)}\0{content_hash(file)}\n".encode(errors="surrogateescape"))
    return [found.hexdigest(), "folder"]


def check_unchanged(corpora: Iterable[CorpusConfig], before: Sequence[dict[str, Any]]) -> None:
    """Raise if a file changed while it was read: what was made of it belongs to neither text."""
    for corpus, known in zip(corpora, before, strict=True):
        if identity(corpus) != known:
            raise DataError(f"the text of {corpus_name(corpus)} changed while it was read; run the command again")
