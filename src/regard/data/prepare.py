"""From corpora to encoded training pairs: done once, and cached until an input changes.

The tokenizer and each corpus have separate cache entries, so if one corpus changes, only that one is encoded again. The
name of an entry is a digest of what determines it: settings, the content of each file, the tokenizer. Weights and seeds
are not included: runs that differ only in those share their tokenizer and pairs.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sentencepiece

from regard.config import CorpusConfig, DataConfig, FilterConfig, TokenizerConfig
from regard.data.content_cache import cache_errors, digest, read_entry, set_aside, write_entry
from regard.data.corpus import Pair, check, check_training, corpus_name, expand, read_pairs
from regard.data.filters import FilterReport, filter_reason
from regard.data.identity import check_unchanged, identity
from regard.data.store import STORE_FORMAT, PairStore, PairStoreWriter
from regard.errors import ConfigError, DataError
from regard.model_folder.checked_json import DamagedFileError
from regard.text.normalise import normalise
from regard.tokenizers.pair import SOURCE_FILE, TARGET_FILE, TokenizerPair
from regard.tokenizers.sentencepiece import JOINT_FILE, SentencePieceModel
from regard.tokenizers.training import train_vocabulary

PREPARE_FORMAT = 1  # to be increased when the same input would be encoded differently
PAIRS_AT_ONCE = 10_000
SECONDS_BETWEEN_LINES = 2.0

Say = Callable[[str], None]


@dataclass
class Prepared:
    """The prepared data of a training run."""

    tokenizer: TokenizerPair
    train: list[PairStore]  # one per corpus
    weights: list[float]
    report: list[FilterReport]
    valid: list[tuple[str, str]]
    reused: bool  # whether everything was in the cache


def prepare(data: DataConfig, cache: Path, say: Say, tokenizer: TokenizerPair | None = None) -> Prepared:
    """Check every corpus, get the tokenizer, encode and filter the training pairs."""
    check_training(data)
    check([*data.train, *data.valid, *data.test])
    valid = [(pair.src, pair.tgt) for corpus in data.valid for pair in read_pairs(corpus) if all_there(pair)]
    if data.valid and not valid:
        raise DataError("every validation pair has an empty side: check the files of [[data.valid]]")
    for corpus in data.test:
        deque(read_pairs(corpus), maxlen=0)  # read all lines, to report errors before training
    made_tokenizer = False
    if tokenizer is None:
        tokenizer, made_tokenizer = get_tokenizer(data, cache, say)
    stores, reports, made_stores = [], [], False
    for corpus in data.train:
        store, made = get_store(corpus, data, tokenizer, cache, say)
        made_stores = made_stores or made
        stores.append(store)
        reports.append(FilterReport(corpus_name(corpus), **store.notes))
        say(str(reports[-1]))
    if not any(map(len, stores)):
        raise DataError(nothing_kept(reports, data.filters))
    weights = [corpus.weight for corpus in data.train]
    return Prepared(tokenizer, stores, weights, reports, valid, reused=not (made_tokenizer or made_stores))


def all_there(pair: Pair) -> bool:
    return bool(normalise(pair.src) and normalise(pair.tgt))


def nothing_kept(reports: list[FilterReport], filters: FilterConfig) -> str:
    lines = ["no training pair is left after the filters:", *map(str, reports)]
    lines.append(
        f"Check the files and data.filters: max_tokens = {filters.max_tokens}, max_ratio = {filters.max_ratio}, "
        f"drop_identical = {str(filters.drop_identical).lower()}"
    )
    return "\n  ".join(lines)


def get_tokenizer(data: DataConfig, cache: Path, say: Say) -> tuple[TokenizerPair, bool]:
    """The tokenizer for the settings, and whether it was trained now."""
    if data.tokenizer.files:
        return ready_tokenizer(data.tokenizer.files, data.lowercase), False
    determinants = tokenizer_determinants(data)
    folder = cache / "tokenizer" / digest(determinants)
    if folder.exists():
        try:
            return TokenizerPair.from_files(read_entry(folder), data.lowercase), False
        except (ConfigError, OSError, DamagedFileError) as error:
            say(f"the cached tokenizer is damaged: {error}; training it again, the damaged one is {set_aside(folder)}")
    tokenizer = train_tokenizer(data, say)
    check_unchanged(data.train, determinants["corpora"])
    write_entry(folder, tokenizer.files())
    return tokenizer, True


def ready_tokenizer(names: tuple[str, ...], lowercase: bool) -> TokenizerPair:
    """The tokenizer from the .model files in the settings."""
    if len(names) > 2:
        raise ConfigError(f"data.tokenizer.files names {len(names)} files; give one (joint) or two (source, target)")
    contents = {}
    for key, name in zip((JOINT_FILE,) if len(names) == 1 else (SOURCE_FILE, TARGET_FILE), names, strict=True):
        path = expand(name)
        try:
            contents[key] = path.read_bytes()
            TokenizerPair.from_files({JOINT_FILE: contents[key]}, lowercase)
        except OSError as error:
            raise ConfigError(f"data.tokenizer.files: {path} cannot be read: {error.strerror}") from None
        except ConfigError as error:
            raise ConfigError(f"data.tokenizer.files: {path}: {str(error).removeprefix(f'{JOINT_FILE}: ')}") from None
    return TokenizerPair.from_files(contents, lowercase)


def train_tokenizer(data: DataConfig, say: Say) -> TokenizerPair:
    """A tokenizer learnt from the training corpora."""
    settings = data.tokenizer
    say(f"training a {'joint ' if settings.joint else ''}{settings.kind} tokenizer of {settings.vocab_size:,} pieces")

    def train(*sides: int) -> SentencePieceModel:
        texts = training_texts(data, sides, say)
        return train_vocabulary(
            texts, settings.kind, settings.vocab_size, settings.character_coverage, split_han=settings.split_han
        )

    if settings.joint:
        joint = train(0, 1)
        return TokenizerPair(joint, joint, data.lowercase)
    return TokenizerPair(train(0), train(1), data.lowercase)


def training_texts(data: DataConfig, sides: tuple[int, ...], say: Say) -> Iterator[str]:
    progress = Progress(say, "reading sentences for the tokenizer")
    for corpus in data.train:
        for pair in read_pairs(corpus):
            progress.add(1)
            for side in sides:
                text = (pair.src, pair.tgt)[side]
                yield text.lower() if data.lowercase else text


def get_store(
    corpus: CorpusConfig, data: DataConfig, tokenizer: TokenizerPair, cache: Path, say: Say
) -> tuple[PairStore, bool]:
    """The encoded pairs of a corpus, and whether they were encoded now."""
    filters = data.filters
    if corpus.toy == "copy":
        filters = dataclasses.replace(filters, drop_identical=False)  # in this task, source = target
    with_text = data.tokenizer.dropout > 0
    determinants = store_determinants(corpus, filters, tokenizer, with_text)
    folder = cache / "pairs" / digest(determinants)
    if (store := open_store(folder, say)) is not None:
        return store, False
    report = FilterReport(corpus_name(corpus))
    progress = Progress(say, f"encoding {report.name}")
    vocab_size = max(tokenizer.src.size, tokenizer.tgt.size)
    with cache_errors(folder), PairStoreWriter(folder, vocab_size, with_text, filters.max_tokens) as writer:
        for pairs in chunks(read_pairs(corpus), PAIRS_AT_ONCE):
            append_kept(writer, pairs, tokenizer, filters, report, normalise(corpus.prefix))
            progress.add(len(pairs))
        check_unchanged([corpus], [determinants["corpus"]])
        return writer.finish(report.counts()), True


def open_store(folder: Path, say: Say) -> PairStore | None:
    """The store of the cache; None if there is none, or if it was damaged and has been set aside."""
    if not folder.exists():
        return None
    try:
        return PairStore(folder)
    except DataError as error:
        say(f"the prepared data is damaged: {error}; encoding again, the damaged data is {set_aside(folder)}")
        return None


def append_kept(
    writer: PairStoreWriter,
    pairs: list[Pair],
    tokenizer: TokenizerPair,
    filters: FilterConfig,
    report: FilterReport,
    prefix: str = "",
) -> None:
    """Encode some pairs and write those that pass the filters, which ignore `prefix`."""
    texts = [(normalise(pair.src), normalise(pair.tgt)) for pair in pairs]
    src = tokenizer.encode_src([text for text, _ in texts])
    tgt = tokenizer.encode_tgt([text for _, text in texts])
    kept = []
    for row, ((src_text, tgt_text), src_ids, tgt_ids) in enumerate(zip(texts, src, tgt, strict=True)):
        sentence = src_text.removeprefix(prefix).strip() if prefix else src_text
        reason = filter_reason(sentence, tgt_text, src_ids, tgt_ids, filters)
        report.count(reason)
        if reason == "kept":
            kept.append(row)
    writer.append([src[row] for row in kept], [tgt[row] for row in kept], [texts[row] for row in kept])


def tokenizer_determinants(data: DataConfig) -> dict[str, Any]:
    settings: TokenizerConfig = data.tokenizer
    optional = {"split_han": True} if settings.split_han else {}
    return {
        **optional,
        "format": PREPARE_FORMAT,
        "sentencepiece": sentencepiece.__version__,
        "corpora": [identity(corpus) for corpus in data.train],
        "kind": settings.kind,
        "vocab_size": settings.vocab_size,
        "joint": settings.joint,
        "character_coverage": settings.character_coverage,
        "lowercase": data.lowercase,
    }


def store_determinants(
    corpus: CorpusConfig, filters: FilterConfig, tokenizer: TokenizerPair, with_text: bool
) -> dict[str, Any]:
    return {
        "format": [PREPARE_FORMAT, STORE_FORMAT],
        "corpus": identity(corpus),
        "filters": dataclasses.asdict(filters),
        "tokenizer": [tokenizer.src.sha256, tokenizer.tgt.sha256, tokenizer.lowercase],
        "with_text": with_text,
    }


def chunks(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    left = iter(pairs)
    while chunk := list(islice(left, size)):
        yield chunk


class Progress:
    """Reports the progress of a long task every few seconds."""

    def __init__(self, say: Say, what: str) -> None:
        self._say = say
        self._what = what
        self._done = 0
        self._said = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._say(f"{self._what}: {self._done:,} pairs")
