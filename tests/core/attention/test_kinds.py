"""What every kind of attention must do, kind by kind. A new kind adds one line to KINDS.

Shapes: B batch, L length, D model, H heads, K head size.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard.models
from regard.config.attention import AttentionConfig, AttentionRole, FullAttention, LatentAttentionConfig
from regard.core.attention.build import build_attention
from regard.core.attention.latent import LatentAttention
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.masks import causal_mask, padding_mask
from regard.core.taps import hook_taps, record, tap_paths
from regard.errors import ConfigError

D, H, K = 12, 3, 4
TAPS = ("q", "k", "v", "scores", "weights", "head_out", "attn_out")
ENCODER, DECODER, CROSS = get_args(AttentionRole)


@dataclass(frozen=True)
class Kind:
    config: AttentionConfig
    roles: tuple[AttentionRole, ...]
    taps: tuple[str, ...]
    limit: Callable[
        [Any], MultiHeadAttention
    ]  # brings a module to its limit; returns the full attention it then equals


def as_it_is(made: MultiHeadAttention) -> MultiHeadAttention:
    """Full attention is its own limit, whatever kernel is chosen."""
    full = MultiHeadAttention(D, H, kernel="reference").double()
    full.load_state_dict(made.state_dict())
    return full


def at_full_rank(made: LatentAttention) -> MultiHeadAttention:
    """A latent vector that is the token itself, and no part that is rotated."""
    q_HKD = made.q_up.weight.view(H, K + ROTARY, D)
    kv_HKD = made.kv_up.weight.view(H, K + K, D)
    with torch.no_grad():
        made.kv_down.weight.copy_(torch.eye(D + ROTARY, D))
        made.kv_norm.weight.fill_(1.0)
        q_HKD[:, K:] = 0.0
    full = MultiHeadAttention(D, H, bias=False, scale=(K + ROTARY) ** -0.5).double()
    with torch.no_grad():
        full.qkv.weight.copy_(torch.cat([part.reshape(D, D) for part in (q_HKD[:, :K], *kv_HKD.split(K, dim=1))]))
        full.out.weight.copy_(made.out.weight)
    return full


ROTARY = 2
LATENT = LatentAttentionConfig(kv_rank=D, head_size=K, value_size=K, rotary_size=ROTARY)
KINDS = {
    "full": Kind(FullAttention(), (ENCODER, DECODER, CROSS), TAPS, as_it_is),
    "latent": Kind(LATENT, (DECODER,), ("latent", *TAPS), at_full_rank),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def build(kind: Kind, role: AttentionRole = DECODER) -> Any:
    """A module with random weights, biases and gains, in float64."""
    torch.manual_seed(0)
    made = build_attention(kind.config, D, H, role).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0.0, 0.5)
    return made


def inputs(batch: int, length: int) -> Tensor:
    """x_BLD of mean square 1 − 10⁻⁶: RMS normalisation, which adds 10⁻⁶, leaves it as it is."""
    x_BLD = torch.randn(batch, length, D, dtype=torch.float64, generator=torch.Generator().manual_seed(length))
    return x_BLD / x_BLD.square().mean(-1, keepdim=True).sqrt() * (1 - 1e-6) ** 0.5


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


def test_every_kind_of_the_config_is_tested() -> None:
    assert [type(kind.config) for kind in KINDS.values()] == list(get_args(AttentionConfig))
    assert [kind.config.kind for kind in KINDS.values()] == list(KINDS)


@every_kind
@pytest.mark.parametrize("role", get_args(AttentionRole))
def test_a_kind_is_built_for_its_roles_only(kind: Kind, role: AttentionRole) -> None:
    if role in kind.roles:
        assert isinstance(build_attention(kind.config, D, H, role), nn.Module)
    else:
        with pytest.raises(ConfigError, match=f"cannot be used as {role} attention"):
            build_attention(kind.config, D, H, role)


@every_kind
@pytest.mark.parametrize("causal", [True, False])
def test_it_equals_full_attention_at_its_limit(kind: Kind, causal: bool) -> None:
    made, x_BLD = build(kind), inputs(2, 6)
    full = kind.limit(made)
    mask = causal_mask(6, 6) if causal else None
    close(made(x_BLD, mask=mask), full(x_BLD, mask=mask))


@every_kind
@given(length=st.integers(2, 7), data=st.data())
@settings(max_examples=20, deadline=None)
def test_future_tokens_never_change_past_outputs(kind: Kind, length: int, data: st.DataObject) -> None:
    made, x_BLD, mask = build(kind), inputs(2, length), causal_mask(length, length)
    first_changed = data.draw(st.integers(1, length - 1))
    changed_BLD = x_BLD.clone()
    changed_BLD[:, first_changed:] = 3.0 - changed_BLD[:, first_changed:]
    before, after = made(x_BLD, mask=mask), made(changed_BLD, mask=mask)
    close(after[:, :first_changed], before[:, :first_changed])
    assert not torch.allclose(after[:, first_changed:], before[:, first_changed:])


@every_kind
@given(length=st.integers(1, 6), padding=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_padding_is_irrelevant(kind: Kind, length: int, padding: int) -> None:
    made, x_BLD = build(kind), inputs(2, length)
    padded_BLD = torch.cat([x_BLD, 5.0 * inputs(2, padding)], dim=1)
    ids_BL = torch.tensor([[1] * length + [0] * padding] * 2)
    close(made(padded_BLD, mask=padding_mask(ids_BL, 0))[:, :length], made(x_BLD, mask=None))


@every_kind
@given(parts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_cached_equals_uncached(kind: Kind, parts: list[int]) -> None:
    made, total = build(kind).requires_grad_(False), sum(parts)
    x_BLD = inputs(3, total)
    cache = made.new_cache(3, total, x_BLD)
    out, start = [], 0
    for length in parts:
        mask = causal_mask(length, start + length) if length > 1 else None
        out.append(made(x_BLD[:, start : start + length], mask=mask, cache=cache))
        start += length
        assert cache.length == start
    close(torch.cat(out, dim=1), made(x_BLD, mask=causal_mask(total, total)))


@every_kind
def test_a_cache_reorders_its_rows_and_raises_when_it_is_full(kind: Kind) -> None:
    made, x_BLD, rows = build(kind).requires_grad_(False), inputs(3, 4), torch.tensor([2, 0, 2, 1])
    cache = made.new_cache(3, 4, x_BLD)
    made(x_BLD[:, :3], mask=causal_mask(3, 3), cache=cache)
    cache.reorder(rows)
    close(made(x_BLD[rows, 3:], mask=None, cache=cache), made(x_BLD, mask=causal_mask(4, 4))[rows, 3:])
    with pytest.raises(ValueError, match="5 tokens, but this cache has room for only 4"):
        made(x_BLD[rows, 3:], mask=None, cache=cache)


@every_kind
def test_taps_have_the_expected_names_and_record_the_values(kind: Kind) -> None:
    made, x_BLD, mask = build(kind), inputs(2, 5), causal_mask(5, 5)
    expected = made(x_BLD, mask=mask)
    assert sorted(tap_paths(made)) == sorted(kind.taps)
    with record(made) as recording:
        close(made(x_BLD, mask=mask), expected)
    assert sorted(recording.paths()) == sorted(kind.taps)
    weights_BHLM = recording["weights"]
    close(weights_BHLM.sum(-1), torch.ones(2, H, 5, dtype=torch.float64))
    assert not weights_BHLM.masked_select(~mask).any()
    close(weights_BHLM @ recording["v"], recording["head_out"])
    close(recording["attn_out"], expected)
    with hook_taps(made, {"attn_out": lambda _, x: torch.zeros_like(x)}):
        assert not made(x_BLD, mask=mask).any()


@every_kind
def test_gradients_equal_finite_differences(kind: Kind) -> None:
    made, mask = build(kind), causal_mask(4, 4)
    names = [name for name, _ in made.named_parameters()]

    def run(x_BLD: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(made, dict(zip(names, parameters, strict=True)), (x_BLD,), {"mask": mask})  # type: ignore[no-any-return]

    values = [parameter.detach().clone().requires_grad_() for parameter in made.parameters()]
    assert torch.autograd.gradcheck(run, (inputs(1, 4).requires_grad_(), *values), fast_mode=True)
    made(inputs(1, 4), mask=mask).square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_models_build_attention_through_build_attention_only() -> None:
    """No file under models/ constructs an attention module or its cache itself."""
    constructors = {"MultiHeadAttention", "LatentAttention", "GrowingCache", "LatentCache"}
    files = sorted(Path(regard.models.__file__ or "").parent.glob("*.py"))
    assert len(files) > 10
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                assert name not in constructors, f"{path.name}:{node.lineno} calls {name}"
