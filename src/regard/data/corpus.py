"""A parallel corpus as a stream of sentence pairs: two aligned files, a TSV or JSONL file, or a toy task."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import SYNTHETIC, CorpusConfig, DataConfig
from regard.data.lines import read_lines
from regard.data.published import VARIABLE as DATA_VARIABLE
from regard.data.published import data_folder, published_corpora
from regard.data.toy import toy_pairs
from regard.errors import ConfigError, DataError

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Pair(NamedTuple):
    src: str
    tgt: str
    line: int  # from 1


def read_pairs(corpus: CorpusConfig) -> Iterator[Pair]:
    """The selected pairs of a corpus, in order, with the prefix before each source; a blank line has an empty side."""
    pairs = _all_pairs(corpus)
    if is_part(corpus):
        count = sum(1 for _ in _all_pairs(corpus))
        asked_for = np.zeros(count, dtype=bool)
        asked_for[chosen_part(corpus, count)] = True
        pairs = compress(pairs, asked_for)
    for pair in pairs:
        yield pair._replace(src=corpus.prefix + pair.src) if corpus.prefix and pair.src.strip() else pair


def is_part(corpus: CorpusConfig) -> bool:
    return (corpus.start, corpus.stop) != (0.0, 1.0)


def chosen_part(corpus: CorpusConfig, count: int) -> npt.NDArray[np.int64]:
    """The indices of the selected part of `count` examples, shuffled first if the settings say so."""
    numbers = np.arange(count)
    if corpus.shuffle:
        np.random.default_rng(corpus.seed % 2**63).shuffle(numbers)
    return numbers[round(count * corpus.start) : round(count * corpus.stop)]


def _all_pairs(corpus: CorpusConfig) -> Iterator[Pair]:
    check_kind(corpus)
    if corpus.toy == "copy" or corpus.toy == "reverse":
        for number, (src, tgt) in enumerate(toy_pairs(corpus.toy, corpus.size, corpus.seed), start=1):
            yield Pair(src, tgt, number)
        return
    paths = corpus_files(corpus)
    if corpus.src:
        yield from _aligned(*paths)
    elif file_format(corpus) == ".tsv":
        yield from _tsv(paths[0])
    else:
        yield from _jsonl(paths[0], corpus.src_field, corpus.tgt_field)


def corpus_name(corpus: CorpusConfig) -> str:
    """The name of a corpus in messages: its files, with their folder."""
    if corpus.toy:
        return f"toy {corpus.toy}"
    path = Path(corpus.src or corpus.file or corpus.text or corpus.images)
    name = f"{path.parent.name}/{path.name}"
    return f"{name} + {Path(corpus.tgt).name}" if corpus.tgt else name


def corpus_files(corpus: CorpusConfig) -> list[Path]:
    """The files of a corpus; raises if one is missing."""
    paths = []
    for name in filter(None, (corpus.src, corpus.tgt, corpus.file)):
        path = corpus_path(corpus, name)
        if path.is_dir():
            raise DataError(f"{path} is a folder; set src and tgt, or file, to a file in it")
        paths.append(path)
    return paths


def check_training(data: DataConfig) -> None:
    """Raise if there is no training data."""
    if not data.train:
        raise ConfigError("there is no training corpus; add at least one [[data.train]] to the recipe")
    if not any(corpus.weight for corpus in data.train):
        raise ConfigError("every training corpus has weight = 0: raise the weight of at least one")


def check(corpora: Iterable[CorpusConfig]) -> None:
    """Raise for a corpus that is missing, empty, or malformed in its first line."""
    for corpus in corpora:
        if next(read_pairs(corpus), None) is None:
            raise DataError(f"{corpus_name(corpus)} is empty; a corpus needs at least one sentence pair")


def check_kind(corpus: CorpusConfig) -> None:
    """Raise unless the settings name exactly one source of pairs."""
    kinds = [bool(corpus.src or corpus.tgt), bool(corpus.file), bool(corpus.toy)]
    if sum(kinds) != 1:
        named = {"src": corpus.src, "tgt": corpus.tgt, "file": corpus.file, "toy": corpus.toy}
        given = ", ".join(f"{key} = {value!r}" for key, value in named.items() if value) or "none of them"
        raise ConfigError(f"a corpus needs exactly one of: src and tgt; file; toy. This one has {given}")
    if corpus.toy in SYNTHETIC:
        raise ConfigError(f"toy = {corpus.toy!r} is a task of language models (model.family = 'gpt'), not of pairs")
    if bool(corpus.src) != bool(corpus.tgt):
        there, lacking = ("src", "tgt") if corpus.src else ("tgt", "src")
        raise ConfigError(
            f"the corpus with {there} = {corpus.src or corpus.tgt!r} lacks {lacking}: set both aligned files"
        )
    if corpus.file:
        file_format(corpus)


def file_format(corpus: CorpusConfig) -> str:
    """ ".tsv" or ".jsonl"."""
    suffix = Path(corpus.file.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if suffix not in (".tsv", ".jsonl"):
        raise ConfigError(f"file = {corpus.file!r} must end in .tsv or .jsonl, optionally followed by .gz or .zst")
    return suffix


def expand(path: str) -> Path:
    """A path with its ${VARIABLES} and ~ expanded."""
    if name := unset_variable(path):
        raise DataError(f"{path} needs the environment variable {name}, which is not set: export {name}=…")
    return Path(_VARIABLE.sub(lambda match: value_of(match[1] or match[2]), path)).expanduser()


def value_of(variable: str) -> str:
    """The value of an environment variable; REGARD_DATA has a default once that folder is there."""
    if variable == DATA_VARIABLE and (folder := data_folder()).is_dir():
        return str(folder)
    return os.environ.get(variable, "")


def unset_variable(path: str) -> str | None:
    """The first of the path's variables that is not set or empty."""
    names = (braced or bare for braced, bare in _VARIABLE.findall(path))
    return next((name for name in names if not value_of(name)), None)


def corpus_path(corpus: CorpusConfig, name: str) -> Path:
    """The path of a file or folder of a corpus; if it is missing, the error says how to get the corpus."""
    if variable := unset_variable(name):
        raise DataError(describe_missing(corpus, name, f"the environment variable {variable} is not set"))
    path = expand(name)
    if not path.exists():
        raise DataError(describe_missing(corpus, name, f"there is no file {path.absolute()}"))
    return path


def describe_missing(corpus: CorpusConfig, name: str, problem: str) -> str:
    """The problem, the description of the corpus, where it is published, its licence, and what to set."""
    lines = [problem]
    if corpus.about:
        lines.append(f"Corpus: {corpus.about}")
    if corpus.published:
        lines.append(f"Published at: {corpus.published}")
    if corpus.licence:
        lines.append(f"Licence: {corpus.licence}")
    variables = [braced or bare for braced, bare in _VARIABLE.findall(name)]
    if variables:
        below, now = _VARIABLE.sub("", name).lstrip("/"), os.environ.get(variables[0])
        state = f"it is {now}" if now else f"export {variables[0]}=/path/to/data"
        lines.append(f"Set {variables[0]} to the folder that contains {below} ({state})")
        if variables[0] == DATA_VARIABLE and below.split("/")[0] in downloadable():
            lines.append(f"Or download the corpus: regard data get {below.split('/')[0]}")
    else:
        lines.append("Correct the path in the recipe; a relative path is relative to the recipe")
    return "\n  ".join(lines)


def downloadable() -> set[str]:
    return {corpus.name for corpus in published_corpora() if corpus.files}


def _aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    sources, targets = read_lines(src_path), read_lines(tgt_path)
    number = 0
    while True:
        src, tgt = next(sources, None), next(targets, None)
        if src is None or tgt is None:
            break
        number += 1
        yield Pair(src, tgt, number)
    if src is not None or tgt is not None:
        src_count = number + (src is not None) + sum(1 for _ in sources)
        tgt_count = number + (tgt is not None) + sum(1 for _ in targets)
        raise DataError(
            f"{src_path} has {src_count:,} lines but {tgt_path} has {tgt_count:,}; line n of one must be the "
            "translation of line n of the other: find the missing or split line and correct it"
        )


def _tsv(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        src, tab, rest = line.partition("\t")
        if line.strip() and not tab:
            raise DataError(f"{path}, line {number}: there is no tab; a line must be source, tab, target")
        yield Pair(src, rest.partition("\t")[0], number)


def _jsonl(path: Path, src_field: str, tgt_field: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            yield Pair("", "", number)
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error}); a line must be one object") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number}: a line must be a JSON object, not {line[:40]!r}")
        yield Pair(_text(record, src_field, path, number), _text(record, tgt_field, path, number), number)


def _text(record: dict[str, object], field: str, path: Path, number: int) -> str:
    value = record.get(field)
    if field not in record:
        has = ", ".join(map(repr, record)) or "none"
        raise DataError(
            f"{path}, line {number}: there is no field {field!r} (it has {has}); "
            "set src_field and tgt_field to the names of its fields"
        )
    if not isinstance(value, str):
        raise DataError(f"{path}, line {number}: the field {field!r} must be a text, not {value!r}")
    return value
