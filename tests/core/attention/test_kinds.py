"""What every kind of attention must do, kind by kind. A new kind adds one line to KINDS.

Shapes: B batch, L length, D model, H heads, K head size.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import regard.models
from regard.config.attention import (
    AdaptiveSpanConfig,
    AttentionConfig,
    AttentionRole,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    FullAttention,
    LatentAttentionConfig,
    LinformerConfig,
    LshAttentionConfig,
    RingAttentionConfig,
    SparseAttentionConfig,
    WindowAttentionConfig,
)
from regard.core.attention.adaptive_span import AdaptiveSpanAttention
from regard.core.attention.build import build_attention
from regard.core.attention.latent import LatentAttention
from regard.core.attention.linformer import Linformer
from regard.core.attention.lsh import LshAttention
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.patterned import PatternedAttention
from regard.core.attention.reference import reference_attention
from regard.core.masks import CausalMask, Mask, causal_mask, padding_mask
from regard.core.taps import Recording, hook_taps, record, tap_paths
from regard.errors import ConfigError

D, H, K = 12, 3, 4
TAPS = ("q", "k", "v", "scores", "weights", "head_out", "attn_out")
ENCODER, DECODER, CROSS = get_args(AttentionRole)


def weighted_values(seen: Recording) -> Tensor:
    return seen["weights"] @ seen["v"]


@dataclass(frozen=True)
class Kind:
    config: AttentionConfig
    roles: tuple[AttentionRole, ...]
    taps: tuple[str, ...]
    limit: Callable[
        [Any], MultiHeadAttention
    ]  # brings a module to its limit; returns the full attention it then equals
    at_limit: AttentionConfig | None = None  # another config for that; None: the same
    head_out: Callable[[Recording], Tensor] = weighted_values  # what the heads bring, from the other taps
    only_causal: bool = False

    @property
    def causal(self) -> bool:
        return DECODER in self.roles


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


def without_global_tokens(made: Any) -> MultiHeadAttention:
    """Global tokens are as the others where their projections are."""
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(made.global_qkv, name).copy_(getattr(made.qkv, name))
    return as_it_is_but(made, "global_qkv.")


def with_the_longest_span(made: AdaptiveSpanAttention) -> MultiHeadAttention:
    with torch.no_grad():
        made.span_H.fill_(1.0)
    return as_it_is_but(made, "span_H")


def projecting_by_identity(made: Linformer) -> MultiHeadAttention:
    with torch.no_grad():
        for part in (made.project_k, made.project_v):
            part.weight.copy_(torch.eye(part.weight.shape[-1]).expand_as(part.weight))
    return as_it_is_but(made, "project_")


class KeysAreQueries(MultiHeadAttention):
    """Full attention whose keys are its queries, of length 1; a token sees itself only if it sees no other."""

    def queries_keys_values(self, x_BLD: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
        q, _, v = (self.heads(part) for part in self.qkv(x_BLD).chunk(3, dim=-1))
        return q, q / (q.square().sum(-1, keepdim=True) + 1e-6 * K).sqrt(), v

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, bias: Tensor | None, cache: Any = None) -> Tensor:
        others = ~torch.eye(q.shape[2], dtype=torch.bool) & (mask if mask is not None else True)
        others[0, 0] |= not others[0].any()
        return reference_attention(q, k, v, others, self.scale)[0]


def with_keys_from_queries(made: LshAttention) -> MultiHeadAttention:
    full = KeysAreQueries(D, H).double()
    with torch.no_grad():
        for ours, theirs in ((made.qv.weight, full.qkv.weight), (made.qv.bias, full.qkv.bias)):
            q, v = ours.chunk(2)
            theirs.copy_(torch.cat([q, torch.full_like(q, 9.0), v]))
        full.out.load_state_dict(made.out.state_dict())
    return full


def as_it_is_but(made: MultiHeadAttention, prefix: str) -> MultiHeadAttention:
    """Full attention with the same parameters, but for those of which it has none."""
    full = MultiHeadAttention(D, H, kernel="reference").double()
    full.load_state_dict({name: x for name, x in made.state_dict().items() if not name.startswith(prefix)})
    return full


def from_global_values(seen: Recording) -> Tensor:
    n_global, v = 1, seen["global_v"]
    first = seen["weights"][:, :, :n_global, : v.shape[2]] @ v
    return torch.cat([first, weighted_values(seen)[:, :, n_global:]], dim=2)


def from_projected_values(seen: Recording) -> Tensor:
    return seen["weights"] @ seen["v_projected"]


ROTARY = 2
LATENT = LatentAttentionConfig(kv_rank=D, head_size=K, value_size=K, rotary_size=ROTARY)
SPAN = AdaptiveSpanConfig(max_span=5, ramp=2, initial_span=2)
SELF = (ENCODER, DECODER)
GLOBAL_TAPS = (*TAPS, "global_q", "global_k", "global_v")
WINDOW, SPARSE, LSH = WindowAttentionConfig, SparseAttentionConfig, LshAttentionConfig
KINDS = {
    "full": Kind(FullAttention(), (*SELF, CROSS), TAPS, as_it_is),
    "latent": Kind(LATENT, (DECODER,), ("latent", *TAPS), at_full_rank),
    "blockwise": Kind(BlockwiseAttentionConfig(block=2), (*SELF, CROSS), TAPS, as_it_is),
    "window": Kind(WINDOW(window=(2,)), SELF, TAPS, as_it_is, WINDOW(window=(6,))),
    "sparse": Kind(SPARSE(stride=2), SELF, TAPS, as_it_is, SPARSE(("strided",), stride=1)),
    "block": Kind(
        BlockAttentionConfig(length=12, n_blocks=6),
        (ENCODER,),
        TAPS,
        as_it_is,
        BlockAttentionConfig(length=12, n_blocks=1, shifts=(0,)),
    ),
    "adaptive_span": Kind(
        SPAN, (DECODER,), TAPS, with_the_longest_span, AdaptiveSpanConfig(max_span=6, ramp=2), only_causal=True
    ),
    "linformer": Kind(
        LinformerConfig(length=12, projected_length=3),
        (ENCODER,),
        (*TAPS, "k_projected", "v_projected"),
        projecting_by_identity,
        LinformerConfig(length=6, projected_length=6),
        from_projected_values,
    ),
    "lsh": Kind(
        LSH(n_buckets=4, chunk=2, n_rounds=2), SELF, TAPS, with_keys_from_queries, LSH(n_buckets=1, chunk=6, n_rounds=1)
    ),
    "ring": Kind(RingAttentionConfig(block=2), (*SELF, CROSS), TAPS, as_it_is),  # on one rank; test_ring.py has more
}
# Other settings of the same kinds, by name and number.
VARIANTS = {
    "window, dilated": Kind(
        WINDOW(window=(1,), dilation=(1, 2, 2)), SELF, TAPS, as_it_is, WINDOW(window=(5,), dilation=(1,))
    ),
    "window, global tokens": Kind(
        WINDOW(window=(1,), n_global_tokens=1),
        SELF,
        GLOBAL_TAPS,
        without_global_tokens,
        WINDOW(window=(0,), n_global_tokens=6),
        from_global_values,
    ),
    "sparse, merged": Kind(
        SPARSE(stride=2, combine="merged"), SELF, TAPS, as_it_is, SPARSE(stride=6, combine="merged")
    ),
    "sparse, fixed": Kind(
        SPARSE(("fixed",), stride=3, summary_columns=1),
        SELF,
        TAPS,
        as_it_is,
        SPARSE(("fixed",), stride=6, summary_columns=1),
    ),
    "sparse, layers": Kind(
        SPARSE(("fixed", "local"), combine="layers", stride=2, summary_columns=1),
        SELF,
        TAPS,
        as_it_is,
        SPARSE(("local",), combine="layers", stride=5),
    ),
    "linformer, one projection per head": Kind(
        LinformerConfig(length=12, projected_length=3, sharing="none"),
        (ENCODER,),
        (*TAPS, "k_projected", "v_projected"),
        projecting_by_identity,
        LinformerConfig(length=6, projected_length=6, sharing="none"),
        from_projected_values,
    ),
    "lsh, one bucket": Kind(
        LSH(n_buckets=1, chunk=2, n_rounds=1), SELF, TAPS, with_keys_from_queries, LSH(n_buckets=1, chunk=6, n_rounds=2)
    ),
    "lsh, more rounds": Kind(
        LSH(n_buckets=2, chunk=1, n_rounds=4, evaluation_rounds=3),
        SELF,
        TAPS,
        with_keys_from_queries,
        LSH(n_buckets=2, chunk=6, n_rounds=1, evaluation_rounds=60),
    ),
}
EVERY = {**KINDS, **VARIANTS}
CAUSAL = {name: kind for name, kind in EVERY.items() if kind.causal}
every_kind = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
every_causal_kind = pytest.mark.parametrize("kind", CAUSAL.values(), ids=CAUSAL)


def build(kind: Kind, config: AttentionConfig | None = None) -> Any:
    """A module with random weights, biases and gains, in float64, that computes by chunks of very few tokens."""
    torch.manual_seed(0)
    made = build_attention(config or kind.config, D, H, kind.roles[-1]).double().eval()
    if isinstance(made, PatternedAttention):
        made.dense_up_to, made.chunk = 0, (2, 3)
    if isinstance(made, LshAttention):
        made.dense_up_to = 0
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.uniform_(0.2, 0.7) if name == "span_H" else parameter.normal_(0.0, 0.5)
    return made


def mask_of(kind: Kind, length: int) -> Tensor | None:
    """Causal, where the kind can be."""
    return causal_mask(length, length) if kind.causal else None


def inputs(batch: int, length: int) -> Tensor:
    """x_BLD of mean square 1 − 10⁻⁶: RMS normalisation, which adds 10⁻⁶, leaves it as it is."""
    x_BLD = torch.randn(batch, length, D, dtype=torch.float64, generator=torch.Generator().manual_seed(length))
    return x_BLD / x_BLD.square().mean(-1, keepdim=True).sqrt() * (1 - 1e-6) ** 0.5


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


def test_every_kind_of_the_config_is_tested() -> None:
    assert [type(kind.config) for kind in KINDS.values()] == list(get_args(AttentionConfig))
    assert [kind.config.kind for kind in KINDS.values()] == list(KINDS)
    assert all(kind.roles == kind.config.roles for kind in EVERY.values())


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
    if causal and not kind.causal:
        return
    made, x_BLD = build(kind, kind.at_limit), inputs(2, 6)
    full = kind.limit(made)
    mask = causal_mask(6, 6) if causal else None
    close(made(x_BLD, mask=mask), full(x_BLD, mask=causal_mask(6, 6) if kind.only_causal else mask))


@every_causal_kind
@given(length=st.integers(2, 9), data=st.data())
@settings(max_examples=20, deadline=None)
def test_future_tokens_never_change_past_outputs(kind: Kind, length: int, data: st.DataObject) -> None:
    made, x_BLD = build(kind), inputs(2, length)
    mask: Mask = data.draw(st.sampled_from([causal_mask(length, length), CausalMask(length, length)]))
    first_changed = data.draw(st.integers(1, length - 1))
    changed_BLD = x_BLD.clone()
    changed_BLD[:, first_changed:] = 3.0 - changed_BLD[:, first_changed:]
    before, after = made(x_BLD, mask=mask), made(changed_BLD, mask=mask)
    close(after[:, :first_changed], before[:, :first_changed])
    if kind.config.kind != "lsh":  # a token that sees one other takes its value, whatever its own is
        assert not torch.allclose(after[:, first_changed:], before[:, first_changed:])


@every_kind
@given(length=st.integers(1, 9), rows=st.integers(1, 2), causal=st.booleans(), padding=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_the_fast_path_equals_the_definition(kind: Kind, length: int, rows: int, causal: bool, padding: int) -> None:
    """Values and gradients, with a hook on the weights and without."""
    made, x_BLD = build(kind), inputs(rows, length).requires_grad_()
    n_real = [max(length - padding * row, 1) for row in range(rows)]
    ids_BL = torch.tensor([[1] * n + [0] * (length - n) for n in n_real])
    mask = CausalMask(length, length) if causal and kind.causal else padding_mask(ids_BL, 0)
    leaves, probe = [x_BLD, *made.parameters()], torch.randn(rows, length, D, dtype=torch.float64)
    fast = made(x_BLD, mask=mask)
    with record(made, "weights"):
        defined = made(x_BLD, mask=mask)
    close(fast, defined)
    for ours, theirs in zip(*(torch.autograd.grad(out, leaves, probe) for out in (fast, defined)), strict=True):
        close(ours, theirs)


@every_kind
@given(length=st.integers(1, 6), padding=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_padding_is_irrelevant(kind: Kind, length: int, padding: int) -> None:
    made, x_BLD = build(kind), inputs(2, length)
    padded_BLD = torch.cat([x_BLD, 5.0 * inputs(2, padding)], dim=1)
    ids_BL = torch.tensor([[1] * length + [0] * padding] * 2)
    close(made(padded_BLD, mask=padding_mask(ids_BL, 0))[:, :length], made(x_BLD, mask=None))


@every_causal_kind
@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=5))
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


@every_causal_kind
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
    made, x_BLD, mask = build(kind), inputs(2, 5), mask_of(kind, 5)
    expected = made(x_BLD, mask=mask)
    assert sorted(tap_paths(made)) == sorted(kind.taps)
    with record(made) as recording:
        close(made(x_BLD, mask=mask), expected)
    assert sorted(recording.paths()) == sorted(kind.taps)
    weights_BHLM = recording["weights"]
    sums_BHL = weights_BHLM.sum(-1)
    if kind.config.kind == "block":  # a head whose block is beyond the input sees nothing
        sums_BHL = sums_BHL.where(weights_BHLM.any(-1), 1.0)
    close(sums_BHL, torch.ones(2, H, 5, dtype=torch.float64))
    assert mask is None or not weights_BHLM.masked_select(~mask).any()
    close(kind.head_out(recording), recording["head_out"])
    close(recording["attn_out"], expected)
    with hook_taps(made, {"attn_out": lambda _, x: torch.zeros_like(x)}):
        assert not made(x_BLD, mask=mask).any()


@every_kind
def test_gradients_equal_finite_differences(kind: Kind) -> None:
    made, mask = build(kind), mask_of(kind, 4)
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
    kinds = {"MultiHead", "Latent", "Blockwise", "Window", "Sparse", "Block", "AdaptiveSpan", "Lsh", "Ring"}
    constructors = {f"{kind}Attention" for kind in kinds} | {"Linformer", "GrowingCache", "PrunedCache", "LatentCache"}
    constructors.add("HashedCache")
    files = sorted(Path(regard.models.__file__ or "").parent.glob("*.py"))
    assert len(files) > 10
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                assert name not in constructors, f"{path.name}:{node.lineno} calls {name}"


def test_more_global_tokens_than_a_text_has_take_no_memory() -> None:
    config = WindowAttentionConfig(n_global_tokens=10**9)
    attention = build_attention(config, 8, 2, "decoder")
    cache = attention.new_cache(1, 16, torch.zeros(1))
    assert cache.early.k_RHTK.shape[2] == 16


def test_an_unknown_kind_is_refused() -> None:
    other: Any = SimpleNamespace(kind="other", roles=(ENCODER,))
    with pytest.raises(AssertionError, match="kind='other'"):
        build_attention(other, D, H, ENCODER)


def test_an_attention_to_few_keys_takes_no_bias_on_the_scores() -> None:
    x_BLD = torch.randn(1, 4, D)
    for config in (WindowAttentionConfig((2,)), LinformerConfig(length=4, projected_length=2)):
        with pytest.raises(ValueError, match="need full or blockwise attention"):
            build_attention(config, D, H, ENCODER)(x_BLD, bias=torch.zeros(4, 4))


def test_linformer_takes_a_mask_of_padding_only() -> None:
    made, x_BLD = build_attention(LinformerConfig(length=4, projected_length=2), D, H, ENCODER), torch.randn(1, 4, D)
    assert made(x_BLD, mask=padding_mask(torch.ones(1, 4, dtype=torch.int64), 0)).shape == (1, 4, D)
    for mask in (CausalMask(4, 4), causal_mask(4, 4)):
        with pytest.raises(ValueError, match="it takes a mask of padding, and no other"):
            made(x_BLD, mask=mask)


def test_more_tokens_than_the_blocks_have_are_refused() -> None:
    made = build_attention(BlockAttentionConfig(length=8, n_blocks=4), D, H, ENCODER)
    with pytest.raises(ValueError, match="9 tokens, but the blocks of this model's attention end at 8"):
        made(torch.randn(1, 9, D))
