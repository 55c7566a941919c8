"""The peers do the same work: as many parameters as ours, and no look at the future. A missing one is skipped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from regard.models.transformer import Transformer

Script = Callable[[str], ModuleType]

PEERS = ("nn.Transformer", "Hugging Face Marian", "Eole", "OpenNMT-py", "JoeyNMT")


@pytest.mark.filterwarnings("ignore")  # what peers say while they import is theirs
@pytest.mark.parametrize("name", PEERS)
def test_it_is_the_same_model(name: str, script: Script) -> None:
    peers, work = script("peers"), script("workloads")
    module, build = peers.TRAINERS[name]
    if reason := peers.missing(module):
        pytest.skip(f"{name}: {reason}")
    from regard.models.ledger import ledger

    torch.manual_seed(1)
    config = work.config_of("toy")
    model = build(config).eval()
    ours = ledger(config).total
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert abs(count - ours) < config.tgt_vocab_size + 10 * config.d_model  # an output bias, last norms

    src, tgt = torch.randint(4, config.src_vocab_size, (3, 7)), torch.randint(4, config.tgt_vocab_size, (3, 6))
    changed = tgt.clone()
    changed[:, 4:] = 5
    logits, after = model(src, tgt), model(src, changed)
    assert logits.shape == (3, 6, config.tgt_vocab_size)
    torch.testing.assert_close(logits[:, :4], after[:, :4])
    assert not torch.allclose(logits[:, 4:], after[:, 4:])
    other = src.clone()
    other[:, 0] = 5
    assert not torch.allclose(logits, model(other, tgt))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PEERS)
def test_its_step_learns(name: str, script: Script) -> None:
    peers, work, steps = script("peers"), script("workloads"), script("training_steps")
    module, build = peers.TRAINERS[name]
    if reason := peers.missing(module):
        pytest.skip(f"{name}: {reason}")
    torch.manual_seed(1)
    batch = work.make_batches(1, "toy")[0]
    step = steps.peer_step(build(work.config_of("toy")), torch.float32)
    first, *_, last = [step(batch) for _ in range(30)]
    assert last < 0.95 * first


def test_our_step_learns(script: Script) -> None:
    work, steps = script("workloads"), script("training_steps")
    torch.manual_seed(1)
    batch = work.make_batches(1, "toy")[0]
    step = steps.regard_step(Transformer(work.config_of("toy")), torch.float32)
    first, *_, last = [step(batch) for _ in range(30)]
    assert last < 0.95 * first


def test_what_to_do_about_a_missing_peer(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every one comes with regard[bench]."""
    for package in ("eole", "joeynmt"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    peers = script("peers")
    assert "pip install 'regard[bench]'" in peers.missing("eole")
    assert "importlib_metadata" in peers.missing("joeynmt")
