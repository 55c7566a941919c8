"""The group of processes that a launcher describes in the environment; test_ring.py has several."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from regard.errors import ConfigError
from regard.train.sequence_parallel import VARIABLES, process_group


def test_without_a_launcher_there_is_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group() as found:
        assert found == (0, 1)
        assert not dist.is_initialized()


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_an_incomplete_environment_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv(missing)
    with pytest.raises(ConfigError, match=f"WORLD_SIZE is set, but {missing} is not: start with torchrun"):
        process_group().__enter__()
    assert not dist.is_initialized()


def test_the_group_ends_with_the_block_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(KeyError, match="the block"):
        sum_and_fail()
    assert not dist.is_initialized()


def sum_and_fail() -> None:
    with process_group() as found:
        assert found == (0, 1)
        total = torch.tensor([3.0])
        dist.all_reduce(total)
        assert total.tolist() == [3.0]
        raise KeyError("the block")
