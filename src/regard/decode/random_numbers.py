"""The random numbers of sampling: a counter-based generator (splitmix64, Steele et al. 2014).

A number depends on its seed, the number of the sample and the position of the token only, whatever the batch or the
thread. engine_sample.h has the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

STEP, FIRST, SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def spread_seed(seed: int, indices: Sequence[int]) -> list[int]:
    """A seed for each sentence, derived from the run's seed and the sentence's index."""
    digests = [hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=7).digest() for index in indices]
    return [int.from_bytes(digest, "little") for digest in digests]


def uniform_numbers(seed: int, sample: int, positions: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each position."""
    counter = np.asarray(positions).astype(np.uint64) + (np.uint64(sample) << np.uint64(32))
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        z = np.uint64(seed) + counter * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
