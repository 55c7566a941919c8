"""Texts and images of the experiments, as arrays of token ids, and the drawing of batches from them.

Tiny Shakespeare by characters and Fashion-MNIST by pixels, of the corpora in ${REGARD_DATA}. The toy ones need no data.

Shapes: N examples, B batch, L length.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from training import Batch

from regard.data.images import read_idx
from regard.data.synthetic import FIRST, NOT_ASKED

Ids = np.ndarray
GREYS = 32  # of a pixel
SIDE = 14  # of an image, each pixel the mean of four


class Corpus(NamedTuple):
    """Running ids, or one row per example."""

    train: Ids
    valid: Ids
    n_symbols: int


def data_folder() -> Path:
    if "REGARD_DATA" not in os.environ:
        raise SystemExit("set REGARD_DATA to the folder of the corpora (regard data), or give --size toy")
    return Path(os.environ["REGARD_DATA"])


@cache
def shakespeare(toy: bool) -> Corpus:
    """By characters; the last tenth is for validation."""
    if toy:
        text = "to be or not to be, that is the question " * 200
    else:
        content = (data_folder() / "lm-tinyshakespeare" / "input.txt.gz").read_bytes()
        text = gzip.decompress(content).decode("utf-8")
    symbols = sorted(set(text))
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    ids = np.array([numbers[symbol] for symbol in text]) + FIRST
    cut = len(ids) * 9 // 10
    return Corpus(ids[:cut], ids[cut:], len(symbols))


@cache
def fashion(toy: bool) -> Corpus:
    """Images of 14 × 14 pixels in 32 greys, row by row."""
    if toy:
        images = {part: np.random.default_rng(0).integers(0, 256, (8, 28, 28), np.uint8) for part in ("train", "t10k")}
    else:
        folder = data_folder() / "fashion-mnist"
        images = {part: read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k")}

    def ids(pixels: np.ndarray) -> Ids:
        small = pixels.reshape(len(pixels), SIDE, 2, SIDE, 2).mean((2, 4))
        return (small * GREYS // 256).astype(np.int64).reshape(len(pixels), -1) + FIRST

    return Corpus(ids(images["train"]), ids(images["t10k"]), GREYS)


def draw(ids: Ids, rows: int, length: int, seed: Sequence[int]) -> Ids:
    """Random windows of running ids, or random rows of examples; ids_BL."""
    random = np.random.default_rng(seed)
    if ids.ndim == 2:
        return ids[random.integers(0, len(ids), rows)]  # type: ignore[no-any-return]
    starts = random.integers(0, len(ids) - length, rows)
    return np.stack([ids[start : start + length] for start in starts])


def next_token(ids_BL: Ids) -> Batch:
    """The targets are the tokens that follow; a token of its own stands first."""
    first_B1 = np.full((len(ids_BL), 1), FIRST - 1)
    inputs_BL = np.concatenate([first_B1, ids_BL[:, :-1]], axis=1)
    return torch.from_numpy(inputs_BL), torch.from_numpy(ids_BL)


def masked(ids_BL: Ids, seed: Sequence[int], share: float = 0.15) -> Batch:
    """A share of the tokens is replaced by a mask, and asked for."""
    hidden_BL = np.random.default_rng([*seed, 1]).random(ids_BL.shape) < share
    inputs_BL, targets_BL = np.where(hidden_BL, FIRST - 1, ids_BL), np.where(hidden_BL, ids_BL, NOT_ASKED)
    return torch.from_numpy(inputs_BL), torch.from_numpy(targets_BL)
