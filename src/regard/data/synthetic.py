"""Synthetic tasks that need long context, for models of one text: token ids, and what is to be predicted where.

    duplicate   0 w 0 w: repeat a random sequence (Reformer: Kitaev et al. 2020, section 5)
    recall      pairs of a key and a value, then some of the keys again: name their values (MQAR, multi-query
                associative recall: Arora et al. 2024)

Ids begin at FIRST, after those of special tokens. A target is NOT_ASKED where nothing is to be predicted.

Shapes: B batch, L length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import SYNTHETIC, CorpusConfig, DataConfig
from regard.data.corpus import check_training
from regard.errors import ConfigError
from regard.tokenizers.characters import CharacterTokenizer

FIRST = 5
FIRST_CHARACTER = 0x4E00  # symbols are written as Chinese characters, of which there are enough
NOT_ASKED = -1
GAP_POWER = 0.1  # of the power law of the distances from the pairs to the questions: near ones are more frequent

Ids = npt.NDArray[np.int64]


class Examples(NamedTuple):
    ids_BL: Ids
    targets_BL: Ids

    @property
    def n_asked(self) -> int:
        return int((self.targets_BL != NOT_ASKED).sum())


def duplicate(random: np.random.Generator, rows: int, length: int, vocabulary: int) -> Examples:
    """The first symbol separates; the others are in w, of length / 2 − 1 tokens. Asked are those of the second w."""
    if length % 2 or length < 4 or vocabulary < 2:
        raise ConfigError(f"duplicate needs an even length from 4 on and 2 symbols, not {length} and {vocabulary}")
    half = length // 2
    word_BL = random.integers(FIRST + 1, FIRST + vocabulary, (rows, half - 1))
    half_BL = np.concatenate([np.full((rows, 1), FIRST), word_BL], axis=1)
    targets_BL = np.full((rows, length), NOT_ASKED)
    targets_BL[:, half:-1] = word_BL
    return Examples(np.concatenate([half_BL, half_BL], axis=1), targets_BL)


def recall(random: np.random.Generator, rows: int, length: int, n_pairs: int, vocabulary: int) -> Examples:
    """Keys are of the first half of the symbols, values of the second; each key is asked for once.

    Between the questions are random symbols. The target of a question is its value, which the text does not show again.
    """
    half, places = vocabulary // 2, length - 2 * n_pairs
    if n_pairs > min(half, places):
        raise ConfigError(f"{length} tokens of {vocabulary} symbols have no room for {n_pairs} pairs and questions")
    keys_BN = np.stack([random.choice(half, n_pairs, replace=False) for _ in range(rows)])
    values_BN = random.integers(half, vocabulary, (rows, n_pairs))
    ids_BL = random.integers(0, vocabulary, (rows, length))
    ids_BL[:, 0 : 2 * n_pairs : 2], ids_BL[:, 1 : 2 * n_pairs : 2] = keys_BN, values_BN
    chance = np.arange(1, places + 1) ** (GAP_POWER - 1)
    targets_BL = np.full((rows, length), NOT_ASKED)
    for row in range(rows):
        asked = 2 * n_pairs + random.choice(places, n_pairs, replace=False, p=chance / chance.sum())
        ids_BL[row, asked] = keys_BN[row]
        targets_BL[row, asked] = values_BN[row] + FIRST
    return Examples(ids_BL + FIRST, targets_BL)


@dataclass(frozen=True)
class PreparedSynthetic:
    """Nothing is stored: examples are drawn when they are needed."""

    tokenizer: CharacterTokenizer  # one character per symbol
    train: tuple[CorpusConfig, ...]
    valid: tuple[CorpusConfig, ...]


def prepare_synthetic(data: DataConfig) -> PreparedSynthetic:
    check_training(data)
    corpora = (*data.train, *data.valid)
    if any(corpus.toy not in SYNTHETIC for corpus in corpora):
        raise ConfigError(
            f"toy = 'duplicate' and 'recall' cannot be mixed with other corpora: {len(corpora)} are given"
        )
    symbols = {corpus.symbols for corpus in corpora}
    if len(symbols) > 1:
        raise ConfigError(f"all toy corpora of a run need the same number of symbols, not {sorted(symbols)}")
    for corpus in corpora:
        draw(corpus, np.random.default_rng(0), 1)
    characters = "".join(chr(FIRST_CHARACTER + number) for number in range(symbols.pop()))
    return PreparedSynthetic(CharacterTokenizer(characters), data.train, data.valid)


def draw(corpus: CorpusConfig, random: np.random.Generator, rows: int) -> Examples:
    """Examples of a corpus."""
    if corpus.toy == "duplicate":
        return duplicate(random, rows, corpus.length, corpus.symbols)
    return recall(random, rows, corpus.length, corpus.pairs, corpus.symbols)
