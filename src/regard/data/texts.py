"""Running text for models of one text: reading, vocabulary, encoding (once), and windows.

A text is a line of a file, or the whole file; each is followed by the end token. The texts are concatenated on disk and
memory-mapped; each epoch cuts them into windows, from a different offset.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.config import CorpusConfig, DataConfig
from regard.data.batches import DataPosition
from regard.data.content_cache import cache_errors, digest, read_entry, set_aside, write_entry
from regard.data.corpus import check_training, corpus_path, is_part
from regard.data.identity import check_unchanged, identity
from regard.data.lines import MAX_LINE, read_lines
from regard.data.prepare import Progress, Say, open_store, ready_tokenizer
from regard.data.store import STORE_FORMAT, PairStoreWriter
from regard.errors import ConfigError, DataError
from regard.model_folder.checked_json import DamagedFileError
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.protocol import Tokenizer, read_tokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.special_ids import MASK_PIECE
from regard.tokenizers.training import train_vocabulary

TEXTS_FORMAT = 1  # to be increased when the same input would be encoded differently
TEXTS_AT_ONCE = 10_000

Ids = npt.NDArray[np.int64]


@dataclass
class PreparedTexts:
    """The prepared data of training on running text."""

    tokenizer: Tokenizer
    train: list[npt.NDArray[Any]]  # per corpus: tokens, including end tokens
    weights: list[float]
    valid: npt.NDArray[Any]


def prepare_texts(
    data: DataConfig, cache: Path, say: Say, tokenizer: Tokenizer | None = None, symbols: Sequence[str] = (MASK_PIECE,)
) -> PreparedTexts:
    """Check every corpus, get a tokenizer, encode. A given `tokenizer` is used; a new one includes the `symbols`."""
    check_texts(data)
    if tokenizer is None:
        texts = (text for corpus in data.train for text in read_texts(corpus))
        tokenizer = get_tokenizer(data, texts, cache, say, symbols)
    train = [get_tokens(corpus, tokenizer, cache, say) for corpus in data.train]
    valid = [get_tokens(corpus, tokenizer, cache, say) for corpus in data.valid]
    say(f"{sum(map(len, train)):,} tokens to learn from, {sum(map(len, valid)):,} to validate on")
    weights = [corpus.weight for corpus in data.train]
    return PreparedTexts(tokenizer, train, weights, np.concatenate(valid) if valid else np.empty(0, np.uint16))


def check_texts(data: DataConfig) -> None:
    """Raise for a corpus that is missing, of another kind, or empty."""
    check_training(data)
    for corpus in (*data.train, *data.valid):
        if not corpus.text:
            raise ConfigError(
                "this model is trained on running text: set `text` in each [[data.train]] and [[data.valid]]"
            )
        if corpus.whole_file and data.tokenizer.kind != "characters" and not data.tokenizer.files:
            raise ConfigError(
                f"text = {corpus.text!r} has whole_file = true, but only a character vocabulary preserves line "
                f"breaks: set data.tokenizer.kind = 'characters', or whole_file = false"
            )
        if next(read_texts(corpus), None) is None:
            raise DataError(f"{corpus.text} is empty; running text needs at least one line with text")


def read_texts(corpus: CorpusConfig) -> Iterator[str]:
    """The texts of a corpus, in order, without empty ones."""
    path = corpus_path(corpus, corpus.text)
    lines = read_lines(path, None if corpus.whole_file else MAX_LINE)  # text8 is one line of 100 MB
    if corpus.column:
        lines = (line.split("\t")[corpus.column - 1] for line in lines if line.count("\t") >= corpus.column - 1)
    if corpus.whole_file:
        text = "".join(line + "\n" for line in lines)
        text = text[round(len(text) * corpus.start) : round(len(text) * corpus.stop)]
        lines = iter([text])
    elif is_part(corpus):
        count = sum(1 for _ in read_lines(path))
        lines = islice(lines, round(count * corpus.start), round(count * corpus.stop))
    return (line for line in lines if line.strip())


def get_tokenizer(
    data: DataConfig, texts: Iterator[str], cache: Path, say: Say, symbols: Sequence[str] = (MASK_PIECE,)
) -> Tokenizer:
    """The tokenizer for the settings: from files, from the cache, or trained on the texts."""
    settings = data.tokenizer
    if settings.files:
        if len(settings.files) > 1:
            raise ConfigError("a model of one text has one vocabulary: list one file in data.tokenizer.files")
        return SentencePieceTokenizer.from_files(
            ready_tokenizer(settings.files, data.lowercase).files(), data.lowercase
        )
    corpora = [identity(corpus) for corpus in data.train]
    determinants: dict[str, Any] = {"format": TEXTS_FORMAT, "corpora": corpora}
    how = {"lowercase": data.lowercase, "tokenizer": dataclasses.asdict(settings), "symbols": list(symbols)}
    folder = cache / "tokenizer" / digest(determinants | how)
    if folder.exists():
        try:
            return read_tokenizer(read_entry(folder), data.lowercase)
        except (ConfigError, OSError, DamagedFileError) as error:
            say(f"the cached tokenizer is damaged: {error}; making it again, the damaged one is {set_aside(folder)}")
    tokenizer: Tokenizer
    if settings.kind == "characters":
        tokenizer = CharacterTokenizer.of(texts, settings.vocab_size, data.lowercase)
    else:
        say(f"training a {settings.kind} tokenizer of {settings.vocab_size:,} pieces")
        cased = (text.lower() if data.lowercase else text for text in texts)
        coverage = settings.character_coverage
        vocabulary = train_vocabulary(
            cased, settings.kind, settings.vocab_size, coverage, symbols=symbols, split_han=settings.split_han
        )
        tokenizer = SentencePieceTokenizer(vocabulary, data.lowercase)
    check_unchanged(data.train, corpora)
    write_entry(folder, tokenizer.files())
    return tokenizer


def get_tokens(corpus: CorpusConfig, tokenizer: Tokenizer, cache: Path, say: Say) -> npt.NDArray[Any]:
    """The tokens of a corpus, each text followed by the end token."""
    files = {name: digest({"content": content.hex()}) for name, content in tokenizer.files().items()}
    before, formats = identity(corpus), [TEXTS_FORMAT, STORE_FORMAT]
    determinants = {"format": formats, "corpus": before, "tokenizer": files, "lower": tokenizer.lowercase}
    folder = cache / "texts" / digest(determinants)
    if (store := open_store(folder, say)) is None:
        progress = Progress(say, f"encoding {Path(corpus.text).name}")
        with cache_errors(folder), PairStoreWriter(folder, tokenizer.size, with_text=False, max_tokens=0) as writer:
            texts = read_texts(corpus)
            while some := list(islice(texts, TEXTS_AT_ONCE)):
                encoded = [[*ids, tokenizer.end] for ids in tokenizer.encode(some)]
                writer.append([[]] * len(some), encoded, [])
                progress.add(len(some))
            check_unchanged([corpus], [before])
            store = writer.finish({})
    return store.tgt.values


class Windows:
    """An endless stream of windows over weighted corpora; all randomness is derived from (seed, epoch)."""

    def __init__(
        self, tokens: Sequence[npt.NDArray[Any]], weights: Sequence[float], length: int, rows: int, seed: int
    ) -> None:
        self._tokens, self._weights = list(tokens), list(weights)
        self._length, self._rows, self._seed = length, max(rows, 1), seed % 2**63
        self._counts = [round(len(one) // length * weight) for one, weight in zip(tokens, weights, strict=True)]
        if not any(self._counts):
            raise DataError(
                f"there is less text than one window of {length} tokens: use more text, or lower "
                f"data.filters.max_tokens"
            )
        self.tokens_per_epoch = float(sum(self._counts) * length)

    def iterate(self, place: DataPosition) -> Iterator[tuple[Ids, DataPosition]]:
        """Each windows_BL with the position after it."""
        epoch, number = place.epoch, place.batch
        while True:
            starts = self.starts(epoch)
            n_batches = -(-len(starts) // self._rows)
            for batch in range(number, n_batches):
                chosen = starts[batch * self._rows : (batch + 1) * self._rows]
                windows = np.stack([self._tokens[c][start : start + self._length] for c, start in chosen])
                after = DataPosition(epoch, 0, batch + 1) if batch + 1 < n_batches else DataPosition(epoch + 1)
                yield windows.astype(np.int64), after
            epoch, number = epoch + 1, 0

    def starts(self, epoch: int) -> list[tuple[int, int]]:
        """(corpus, first token) of every window of an epoch, in its order."""
        random = np.random.default_rng((self._seed, epoch))
        found = []
        for corpus, (tokens, count) in enumerate(zip(self._tokens, self._counts, strict=True)):
            if not count:
                continue
            room = len(tokens) - self._length  # the last possible start of a window
            shift = int(random.integers(min(self._length, room + 1)))
            places = np.arange(shift, room + 1, self._length)
            chosen = [random.permutation(places) for _ in range(-(-count // len(places)))]
            found += [(corpus, int(start)) for start in np.concatenate(chosen)[:count]]
        return [found[i] for i in random.permutation(len(found))]


def cut_evenly(tokens: npt.NDArray[Any], length: int, most: int) -> list[Ids]:
    """Consecutive windows, of which the last may be shorter; at most `most` (0: all), evenly spread over the text."""
    starts = list(range(0, len(tokens), length))
    chosen = starts[:: max(1, -(-len(starts) // most))] if most else starts
    return [tokens[start : start + length].astype(np.int64) for start in chosen]
