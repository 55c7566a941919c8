"""The published corpora that recipes use: where each comes from, its licence, and what its files contain.

The table is published.toml; `regard data get` downloads by it (fetch.py).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.config.parsing import build, suggestion
from regard.errors import ConfigError

VARIABLE = "REGARD_DATA"
TABLE = Path(__file__).with_name("published.toml")
# unchanged; one space between words; text and label of a CSV file; the first images or labels of an IDX file
Preparation = Literal["unchanged", "spaces", "csv", "first"]


@dataclass(frozen=True)
class PublishedFile:
    """A file of a corpus, stored with gzip; `size` and `sha256` are those of its contents."""

    name: str
    url: str
    size: int
    sha256: str
    preparation: Preparation = "unchanged"
    first: int = 0  # of "first": how many


@dataclass(frozen=True)
class PublishedCorpus:
    """A corpus. One without files is put together from several sources, and cannot be downloaded as it is."""

    name: str
    about: str
    source: str
    licence: str
    files: tuple[PublishedFile, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class _Table:
    corpora: tuple[PublishedCorpus, ...]


def published_corpora(table: Path = TABLE) -> tuple[PublishedCorpus, ...]:
    return build(_Table, tomllib.loads(table.read_text("utf-8")), "").corpora


def find_corpus(name: str) -> PublishedCorpus:
    corpora = {corpus.name: corpus for corpus in published_corpora()}
    if name not in corpora:
        raise ConfigError(f"no corpus {name!r} is known; {suggestion(name, corpora)}, or see regard data list")
    return corpora[name]


def data_folder() -> Path:
    """The folder of the corpora: $REGARD_DATA, or $XDG_DATA_HOME/regard/data (~/.local/share/regard/data)."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "regard" / "data"
