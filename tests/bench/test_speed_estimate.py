"""`regard doctor` and bench/train.py count the operations of a training step alike."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from regard.cli.speed_estimate import SIZES, config_of, training_operations
from regard.data.batches import collate


@pytest.mark.filterwarnings("ignore")  # what peers say while they import is theirs
@pytest.mark.parametrize("size", SIZES)
def test_useful_operations(size: str, script: Callable[[str], ModuleType]) -> None:
    config = config_of(size)  # type: ignore[arg-type]
    batch = collate([np.full(16, 5)] * 3, [np.full(16, 6)] * 3)  # 17 tokens with the end of the sentence
    counted = script("train").useful_operations(config, batch) / batch.n_tokens
    assert training_operations(config, length=17) == pytest.approx(counted)
