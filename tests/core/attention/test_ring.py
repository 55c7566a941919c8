"""Ring attention on several ranks, each a process of its own, against one process; a rank killed; work per rank."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import GptConfig, RingAttentionConfig
from regard.config.attention import RingLayout
from regard.core.attention.build import build_attention
from regard.core.attention.ring import computed_pairs, plan_ring
from regard.core.masks import CausalMask
from regard.core.sharding import Sharding, sharded
from regard.core.taps import record
from regard.errors import ConfigError, LostRank
from regard.models.gpt import Gpt
from regard.train.sequence_parallel import sharding_of

SCRIPT = Path(__file__).parent / "ring_ranks.py"
LAYOUTS: tuple[RingLayout, ...] = ("contiguous", "zigzag")


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("ring_ranks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def ranks(n: int, folder: Path, what: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The process that has forked the ranks, and their process ids."""
    command, variables = (
        [sys.executable, str(SCRIPT), str(n), str(folder), what],
        {**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, start_new_session=True) as started:
        assert started.stdout is not None
        try:
            yield started, [int(number) for number in started.stdout.readline().split()]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def exit_codes(started: subprocess.Popen[str], seconds: float = 600) -> list[int]:
    """Of the ranks, once all have ended."""
    printed, _ = started.communicate(timeout=seconds)
    return [int(code) for code in printed.split()]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """x and memory of 24 and 16 tokens, the second with padding; a text of 22 tokens, which is padded to be cut."""
    torch.manual_seed(1)
    x, memory, probe = (torch.randn(2, length, 12, dtype=torch.float64) for length in (24, 16, 24))
    ids = torch.ones(2, 24, dtype=torch.int64)
    ids[1, 15:] = 0
    text = torch.randint(11, (2, 23))
    torch.save({"x": x, "memory": memory, "probe": probe, "ids": ids, "text": text}, tmp_path / "inputs.pt")
    return tmp_path


def test_ranks_together_equal_one_process(inputs: Path) -> None:
    """4 and 2 ranks: outputs to 1e-12 and gradients to 1e-10, in both layouts and all roles; and a language model's."""
    with ranks(4, inputs, "compare") as (started, _):
        assert exit_codes(started) == [0] * 4
    script = load_script()
    for n, layout in itertools.product((2, 4), LAYOUTS):
        found = [torch.load(inputs / f"{layout}{rank}of{n}.pt", weights_only=True) for rank in range(n)]
        for role in ("encoder", "decoder", "cross"):
            whole = script.case(inputs, None, role, layout)
            out = torch.empty_like(whole["out"])
            for rank, parts in enumerate(found):
                out[:, Sharding(rank, n, layout).positions(24 // n)] = parts[role]["out"]
            torch.testing.assert_close(out, whole.pop("out"), rtol=0, atol=1e-12)
            for name, expected in whole.items():
                summed: Tensor = sum(parts[role][name] for parts in found)  # type: ignore[assignment]
                torch.testing.assert_close(summed, expected, rtol=0, atol=1e-10, msg=f"{layout} {role} {name}")
        alone = script.step(inputs, 0, 1, layout)
        for parts in found:  # every rank has the sum
            for name, expected in alone.items():
                torch.testing.assert_close(parts["language model"][name], expected, rtol=0, atol=1e-10, msg=name)


def test_when_a_rank_is_killed_the_others_end_with_an_error(tmp_path: Path) -> None:
    with ranks(3, tmp_path, "train") as (started, processes):
        while not all((tmp_path / f"rank{rank}.started").exists() for rank in range(3)):
            assert started.poll() is None, "the ranks have ended by themselves"
            os.sched_yield()
        os.kill(processes[1], signal.SIGKILL)
        assert exit_codes(started, seconds=60) == [LostRank.code, -signal.SIGKILL, LostRank.code]
    for rank in (0, 2):
        error = (tmp_path / f"rank{rank}.error").read_text("utf-8")
        assert f"error: rank {rank} of 3 has lost another rank" in error
        assert "start them again together" in error


@settings(max_examples=30, deadline=None)
@given(n_ranks=st.integers(1, 5), half=st.integers(1, 9), block=st.integers(1, 5), layout=st.sampled_from(LAYOUTS))
def test_every_pair_is_computed_once(n_ranks: int, half: int, block: int, layout: RingLayout) -> None:
    n_local = 2 * half
    length = n_local * n_ranks
    for causal in (False, True):
        times = torch.zeros(length, length)
        for rank in range(n_ranks):
            mine = Sharding(rank, n_ranks, layout)
            for step, plan in enumerate(plan_ring(mine, 1, n_local, n_local, causal, block)):
                theirs = Sharding((rank - step) % n_ranks, n_ranks, layout).positions(n_local)
                for chunk in plan.chunks:
                    query, key = mine.positions(n_local)[chunk.queries], theirs[chunk.keys]
                    times[query[:, None], key] += 1 if chunk.mask_lm is None else chunk.mask_lm.float()
        expected = torch.ones(length, length)
        torch.testing.assert_close(times, expected.tril() if causal else expected)


def test_zigzag_gives_every_rank_the_same_work() -> None:
    """Under a causal mask, 16,384 tokens on 4 ranks in blocks of 512: the figures are in docs/LOG.md."""
    shares = {
        layout: [
            sum(computed_pairs(plan_ring(Sharding(rank, 4, layout), 1, 4096, 4096, True, 512))) for rank in range(4)
        ]
        for layout in LAYOUTS
    }
    block = 512 * 512
    assert [pairs // block for pairs in shares["contiguous"]] == [36, 100, 164, 228]
    assert [pairs // block for pairs in shares["zigzag"]] == [132] * 4


def test_what_a_ring_cannot_do_is_refused() -> None:
    made: Any = build_attention(RingAttentionConfig(), 12, 3, "decoder")
    x_BLD, mask = torch.randn(1, 4, 12), CausalMask(4, 4)
    with sharded(Sharding(0, 2)):
        with record(made, "weights"), pytest.raises(ValueError, match="no rank has all of them"):
            made(x_BLD, mask=mask)
        with pytest.raises(ValueError, match="takes neither a bias on the scores nor a cache"):
            made(x_BLD, mask=mask, bias=torch.zeros(4, 4))
        with pytest.raises(ValueError, match="takes CausalMask and those of padding"):
            made(x_BLD, mask=mask.dense)
    with sharded(Sharding(0, 2, "contiguous")), pytest.raises(ValueError, match="in the layout 'contiguous'"):
        made(x_BLD, mask=mask)
    with pytest.raises(ValueError, match="pad them to a multiple of 4"):
        Sharding(0, 2).take(torch.zeros(1, 6), 1)
    small: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "vocab_size": 5}
    with pytest.raises(ConfigError, match=r"with model\.attention\.kind = 'ring' only"):
        sharding_of(Gpt(GptConfig(**small)), 0, 2)
    with pytest.raises(ConfigError, match="cannot be cut among ranks"):
        sharding_of(Gpt(GptConfig(**small, attention=RingAttentionConfig(), ffn="moe")), 0, 2)
