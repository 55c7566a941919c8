"""One step of training equals the textbook's, computed with torch's own loss and optimiser."""

from __future__ import annotations

import copy
import math
from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import Batch, collate
from regard.errors import ConfigError
from regard.tokenizers.special_ids import EOS, PAD
from regard.train.loop import Trainer

EXACT = {"rtol": 1e-9, "atol": 1e-12}


def in_float64(trainer: Trainer) -> Trainer:
    trainer.model.double()
    trainer.model.compute_dtype = None
    return trainer


def first_batches(trainer: Trainer, count: int) -> list[Batch]:
    return [batch for batch, _ in islice(trainer.task.batches(trainer.progress.position), count)]


def plain_loss(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    """The summed loss over the real target tokens."""
    src, tgt_in, tgt_out = map(torch.from_numpy, (batch.src, batch.tgt_in, batch.tgt_out))
    logits_VN = model(src, tgt_in).flatten(0, 1)
    return F.cross_entropy(logits_VN, tgt_out.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


def plain_step(model: nn.Module, batches: list[Batch], optimizer: torch.optim.Optimizer, clip: float = 0.0) -> float:
    """The mean over all tokens of all batches, weighted by tokens; one update."""
    tokens = sum(batch.n_tokens for batch in batches)
    loss = torch.stack([plain_loss(model, batch, 0.1) for batch in batches]).sum() / tokens
    loss.backward()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))
    if clip and norm > clip:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(clip / norm)
    optimizer.step()
    return norm


def check_equal(ours: nn.Module, theirs: nn.Module, **tolerance: float) -> None:
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def moved(ours: nn.Module, before: nn.Module) -> float:
    pairs = zip(ours.parameters(), before.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_is_adams_on_the_mean_over_tokens(make_trainer: Any, accumulate: int) -> None:
    # eps is large because Adam's first step is otherwise nearly a sign, blind to how the gradient is scaled
    trainer = in_float64(
        make_trainer("model.dropout=0.0", f"train.gradient_accumulation_steps={accumulate}", "train.eps=0.1")
    )
    before, plain = copy.deepcopy(trainer.model), copy.deepcopy(trainer.model)
    (batches, place), *_ = islice(trainer.steps(), 1)
    assert len(batches) == accumulate
    assert place.batch == accumulate
    result = trainer.step(batches)
    # the rate of the first of 4 warming steps to 3e-3
    optimizer = torch.optim.Adam(plain.parameters(), lr=3e-3 / 4, betas=(0.9, 0.98), eps=0.1)
    norm = plain_step(plain, batches, optimizer)
    assert result.lr == 3e-3 / 4
    assert result.grad_norm == pytest.approx(norm, rel=1e-6)
    assert result.tokens == trainer.progress.tokens == sum(batch.n_tokens for batch in batches)
    check_equal(trainer.model, plain, **EXACT)
    assert moved(trainer.model, before) > 1e-5


def test_accumulated_batches_equal_one_batch(make_trainer: Any) -> None:
    whole, halves = (in_float64(make_trainer("model.dropout=0.0", "train.eps=0.1")) for _ in range(2))
    (batch,) = first_batches(whole, 1)
    rows = [[int(i) for i in row if i != PAD][:-1] for row in batch.src]
    targets = [[int(i) for i in row if i not in (PAD, EOS)] for row in batch.tgt_out]
    middle = len(rows) // 3  # unequal in tokens
    parts = [collate(rows[:middle], targets[:middle]), collate(rows[middle:], targets[middle:])]
    assert parts[0].n_tokens < parts[1].n_tokens
    one, other = whole.step([batch]), halves.step(parts)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert one.nll == pytest.approx(other.nll, rel=1e-12)
    check_equal(whole.model, halves.model, **EXACT)


@pytest.mark.parametrize("limit", [0.05, 1e6])
def test_clipping(make_trainer: Any, limit: float) -> None:
    trainer = in_float64(make_trainer("model.dropout=0.0", f"train.clip_norm={limit}", "train.eps=0.1"))
    plain = copy.deepcopy(trainer.model)
    batches = first_batches(trainer, 1)
    result = trainer.step(batches)
    norm = plain_step(plain, batches, torch.optim.Adam(plain.parameters(), 3e-3 / 4, (0.9, 0.98), 0.1), limit)
    assert norm > 0.05
    assert result.grad_norm == pytest.approx(norm, rel=1e-6)  # what is reported is the norm before
    check_equal(trainer.model, plain, rtol=1e-4, atol=1e-9)  # torch's own clipping adds 1e-6 to the norm


def test_the_gradient_starts_anew_each_step(make_trainer: Any) -> None:
    trainer = in_float64(make_trainer("model.dropout=0.0", "train.eps=0.1"))
    plain = copy.deepcopy(trainer.model)
    optimizer = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=0.1)
    for step, batch in enumerate(first_batches(trainer, 6), start=1):
        result = trainer.step([batch])
        expected = 3e-3 * min(step / 4, math.sqrt(4 / step))
        assert result.lr == pytest.approx(expected, rel=1e-12)
        for group in optimizer.param_groups:
            group["lr"] = expected
        optimizer.zero_grad()
        plain_step(plain, [batch], optimizer)
    check_equal(trainer.model, plain, **EXACT)


def test_adamw_in_a_run_decays_matrices_only(make_trainer: Any) -> None:
    settings = ("model.dropout=0.0", "train.optimizer=adamw", "train.eps=0.1")
    plain, decayed = (in_float64(make_trainer(*settings, f"train.weight_decay={decay}")) for decay in (0.0, 0.5))
    before = copy.deepcopy(plain.model)
    batches = first_batches(plain, 1)
    plain.step(batches)
    decayed.step(batches)
    kinds = set()
    named = zip(plain.model.named_parameters(), decayed.model.parameters(), before.parameters(), strict=True)
    for (name, one), other, old in named:
        shrunk = 3e-3 / 4 * 0.5 * old if one.dim() > 1 else torch.zeros_like(one)
        torch.testing.assert_close(other, one - shrunk, rtol=1e-9, atol=1e-12, msg=name)
        kinds.add(one.dim() > 1)
    assert kinds == {True, False}


def divergence(trainer: Trainer, batch: Batch) -> float:
    """Mean divergence between the predictions of two passes with different dropout, both ways."""
    torch.manual_seed(5)
    src, tgt_in = torch.from_numpy(batch.src), torch.from_numpy(batch.tgt_in)
    with torch.no_grad():
        p, q = (trainer.model(src, tgt_in)[batch.tgt_out != PAD].log_softmax(-1) for _ in range(2))
    return float(sum(F.kl_div(a, b, log_target=True, reduction="batchmean") for a, b in ((p, q), (q, p))))


def test_r_drop_reduces_the_divergence(make_trainer: Any) -> None:
    found = {}
    for strength in (0.0, 5.0):
        trainer = make_trainer(
            f"train.r_drop={strength}", "model.dropout=0.3", "train.max_steps=60", "train.validate_every=100"
        )
        trainer.train()
        losses = [report.nll for report in trainer.listener.steps]
        assert losses[-1] < losses[0]
        found[strength] = divergence(trainer, first_batches(trainer, 1)[0])
    assert 0 < found[5.0] < 0.8 * found[0.0]


def test_the_loss_reported_is_the_mean_over_the_tokens_of_all_steps(make_trainer: Any) -> None:
    each, thirds = (
        make_trainer(
            f"train.log_every={every}", "train.max_steps=9", "train.gradient_accumulation_steps=2", "model.dropout=0.0"
        )
        for every in (1, 3)
    )
    weights = [sum(batch.n_tokens for batch in batches) for batches, _ in islice(each.steps(), 9)]
    each.train()
    thirds.train()
    assert [report.step for report in thirds.listener.steps] == [3, 6, 9]
    for third, report in enumerate(thirds.listener.steps):
        among = slice(3 * third, 3 * third + 3)
        for name in ("loss", "nll"):
            values = [getattr(r, name) for r in each.listener.steps[among]]
            mean = sum(v * w for v, w in zip(values, weights[among], strict=True)) / sum(weights[among])
            assert getattr(report, name) == pytest.approx(mean, rel=1e-9)


def test_int8_without_kernels_is_refused(make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    with pytest.raises(ConfigError, match=r"'int8', but the C\+\+ kernels are not available: .*REGARD_NATIVE"):
        make_trainer("train.precision=int8")
