"""LSH attention (Reformer: Kitaev, Kaiser and Levskaya 2020, sections 2 and 3).

Queries are keys: k = q / |q|. A hash round sends a token to the bucket argmax [k R; −k R], R a random rotation (Andoni
et al. 2015). A token sees those of its own bucket that are in its chunk of the bucket or in the chunk before, in any of
the rounds; itself only if it sees no other. The result is one softmax over these keys.

- Rounds. The paper divides the weight of a pair by the number of rounds in which it occurs, and adds up the rounds by
  their log-sum-exp (its equations 4 and 5). That is the softmax over the union of what the rounds see. Here a pair
  counts in the first round in which it occurs, which is the same number for fewer operations.
- Deviation: a chunk is a number of tokens *of one bucket*, counted from its first. In the paper the sorted sequence
  of all buckets is cut into chunks; a later token then moves tokens of other buckets across these cuts, and so changes
  what earlier tokens see. Here what a token sees depends on nothing after it and on no padding (decision 028).
- Rotations. In training they are drawn for every pass from torch's generator, as dropout is: a resumed run draws the
  same. Otherwise they come from `hash_seed` and the number of the layer, and are always the same.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size, S rounds, E half of the buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.attention import LshAttentionConfig
from regard.core.attention.buckets import Layout, bucketed_attention, ranks_of
from regard.core.attention.multi_head import Cache, MultiHeadAttention
from regard.core.attention.patterned import DENSE_UP_TO, masked_softmax
from regard.core.cache import FixedCache, GrowingCache, PrunedCache
from regard.core.linear import Linear
from regard.core.masks import CausalMask, Mask, dense
from regard.core.positions import Positions
from regard.core.reversible import recomputing

SMALLEST_SQUARE = 1e-6  # added to the mean square of a query before it is normalised
NOWHERE = -(2**30)  # the place of padding
HASHED_AT_ONCE = 2**20  # products of keys and rotations held at a time
QUERIES_AT_ONCE = 128  # of a text that is read in parts


@dataclass(frozen=True)
class BucketLoad:
    """What the passes in training since the last report saw. Sums, over rows, heads, rounds and passes."""

    tokens: int = 0
    buckets: int = 0
    largest: int = 0  # tokens in a bucket
    seen: int = 0  # pairs of different tokens, each once
    possible: int = 0

    def __add__(self, other: BucketLoad) -> BucketLoad:
        return BucketLoad(
            self.tokens + other.tokens,
            self.buckets + other.buckets,
            max(self.largest, other.largest),
            self.seen + other.seen,
            self.possible + other.possible,
        )

    @property
    def mean(self) -> float:
        """Tokens in a bucket, empty buckets included."""
        return self.tokens / max(self.buckets, 1)

    @property
    def share_seen(self) -> float:
        """Of the pairs that full attention would see."""
        return self.seen / max(self.possible, 1)


class HashedCache(GrowingCache):
    """It also holds where every token stands, and how many are in every bucket."""

    def __init__(
        self, n_rows: int, n_heads: int, capacity: int, head_size: int, like: Tensor, n_rounds: int, n_buckets: int
    ) -> None:
        super().__init__(n_rows, n_heads, capacity, head_size, like)
        self.capacity = capacity
        place = like.new_empty(n_rows, n_heads, capacity, n_rounds, dtype=torch.int64)
        self.place_RHTS, self.count_RHSb = place, place.new_zeros(n_rows, n_heads, n_rounds, n_buckets)

    def places(self, bucket_SRHL: Tensor, layout: Layout) -> Tensor:
        """place_SRHM of all tokens so far; the new ones are in these buckets, behind those that the cache holds."""
        bucket_RHSL = bucket_SRHL.movedim(0, 2)
        rank_RHSL = self.count_RHSb.gather(-1, bucket_RHSL) + ranks_of(bucket_RHSL, layout.n_buckets)
        self.count_RHSb.scatter_add_(-1, bucket_RHSL, torch.ones_like(bucket_RHSL))
        new = slice(self.length - bucket_SRHL.shape[-1], self.length)
        self.place_RHTS[:, :, new] = layout.places(bucket_RHSL, rank_RHSL).mT
        return self.place_RHTS[:, :, : self.length].movedim(-1, 0)

    def reorder(self, rows_R: Tensor) -> None:
        super().reorder(rows_R)
        self.place_RHTS = self.reordered(self.place_RHTS, rows_R)
        self.count_RHSb = self.count_RHSb.index_select(0, rows_R)


class LshAttention(MultiHeadAttention):
    """softmax(q kᵀ · scale, where any round sees it) v, k = q / |q|. W_Q and W_V are one matrix, `qv`."""

    dense_up_to = DENSE_UP_TO  # tests make it smaller

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        *,
        config: LshAttentionConfig,
        layer: int = 0,
        bias: bool = True,
        **shape: Any,
    ) -> None:
        super().__init__(d_model, n_heads, dropout, bias=bias, **shape)
        del self.qkv
        self.qv = Linear(d_model, 2 * self.n_heads * self.head_size, bias)
        self.n_buckets, self.chunk, self.n_rounds = config.n_buckets, config.chunk, config.n_rounds
        self.evaluation_rounds = config.evaluation_rounds or config.n_rounds
        self.seed = (config.hash_seed, layer)
        self.fixed_rotations: Tensor | None = None
        self.load = BucketLoad()

    def attend(
        self,
        x_BLD: Tensor,
        memory_BMD: Tensor | None,
        mask: Mask | None,
        bias: Tensor | None,
        positions: Positions | None,
        cache: Cache | None,
    ) -> Tensor:
        if memory_BMD is not None or isinstance(cache, FixedCache):
            raise ValueError("LSH attention is self-attention: its queries are its keys")
        return super().attend(x_BLD, None, mask, bias, positions, cache)

    def queries_keys_values(
        self, x_BLD: Tensor, positions: Positions | None, cache: GrowingCache | PrunedCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q_BHLK, v_BHLK = (self.heads(part) for part in self.qv(x_BLD).chunk(2, dim=-1))
        if positions is not None:
            q_BHLK = positions.rotate(q_BHLK, 0 if cache is None else cache.length)
        k_BHLK = normalised(q_BHLK)
        if cache is None:
            return q_BHLK, k_BHLK, v_BHLK
        return q_BHLK, *cache.append(k_BHLK, v_BHLK)

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        if bias is not None:
            raise ValueError("positions that act on the scores (alibi, relative) need full or blockwise attention")
        L, M = q.shape[2], k.shape[2]
        counts = self.training and not recomputing()
        layout = Layout(self.n_buckets, self.chunk, max(M, getattr(cache, "capacity", 0)))
        bucket_SBHL = self.buckets(k[:, :, M - L :].detach(), fixed=not self.training or cache is not None)
        real_BHM = real_keys(mask, k)
        if isinstance(cache, HashedCache):
            place_SBHM = cache.places(bucket_SBHL, layout)
        else:
            bucket_SBHL = bucket_SBHL.masked_fill(~real_BHM, self.n_buckets)
            place_SBHM = layout.places(bucket_SBHL, ranks_of(bucket_SBHL, self.n_buckets + 1))
            place_SBHM = place_SBHM.masked_fill(~real_BHM, NOWHERE)
        matrix = isinstance(mask, Tensor) and mask.shape[-2] > 1
        if self.is_dense(q, k) or matrix or L < M:
            out_BHLK, seen = self.dense(q, k, v, mask, place_SBHM)
        else:
            causal = isinstance(mask, CausalMask)
            out_BHLK, seen = bucketed_attention(
                q, k, v, bucket_SBHL, layout, causal, self.scale, self.dropout.active_p, count=counts
            )
        if counts:
            self.load += load_of(bucket_SBHL, self.n_buckets, seen, isinstance(mask, CausalMask) or matrix, real_BHM)
        return out_BHLK

    def is_dense(self, q: Tensor, k: Tensor) -> bool:
        return self.hooked or self.kernel == "reference" or q.shape[2] * k.shape[2] <= self.dense_up_to

    def dense(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, place_SBHM: Tensor) -> tuple[Tensor, int]:
        """The definition; few queries at a time of a long text that is read in parts. Hooks are called."""
        L, M = q.shape[2], k.shape[2]
        mask_LM, key_M = dense(mask), torch.arange(M, device=q.device)
        step = L if self.is_dense(q, k) or L == M else QUERIES_AT_ONCE
        parts, n_seen = [], 0
        for start in range(0, L, step):
            rows = slice(start, start + step)
            query_L = key_M[M - L :][rows]
            mask_here = None if mask_LM is None else mask_LM if mask_LM.shape[-2] == 1 else mask_LM[..., rows, :]
            others_BHLM = seen_pairs(place_SBHM[..., query_L], place_SBHM)
            itself_LM = query_L[:, None] == key_M
            if mask_here is not None:
                others_BHLM &= mask_here
            alone_BHL1 = ~(others_BHLM & ~itself_LM).any(-1, keepdim=True)
            seen_BHLM = others_BHLM & (~itself_LM | alone_BHL1)
            if self.training and not recomputing():
                n_seen += int((seen_BHLM & ~itself_LM).sum())
            scores_BHLM = self.scores((q[:, :, rows] * self.scale) @ k.mT)
            parts.append(self.dropout(self.weights(masked_softmax(scores_BHLM, seen_BHLM))) @ v)
        return torch.cat(parts, dim=2) if len(parts) > 1 else parts[0], n_seen

    @torch.no_grad()
    def buckets(self, k_BHLK: Tensor, fixed: bool) -> Tensor:
        """bucket_SBHL of each round."""
        if self.n_buckets == 1:
            rounds = self.evaluation_rounds if fixed else self.n_rounds
            return torch.zeros(rounds, *k_BHLK.shape[:3], dtype=torch.int64, device=k_BHLK.device)
        dtype = torch.promote_types(k_BHLK.dtype, torch.float32)
        if fixed:
            rotations_SHKE = self.rotations_of_seed().to(k_BHLK.device, dtype)
        else:
            rotations_SHKE = torch.randn(self.n_rounds, *self.rotation_shape, dtype=dtype, device=k_BHLK.device)
        return torch.stack([hashed(k_BHLK.to(dtype), rotations_HKE) for rotations_HKE in rotations_SHKE])

    @property
    def rotation_shape(self) -> tuple[int, int, int]:
        return self.n_heads, self.head_size, self.n_buckets // 2

    def rotations_of_seed(self) -> Tensor:
        """Those of evaluation; with more rounds the first stay as they are. NumPy guarantees these numbers for good."""
        if self.fixed_rotations is None or len(self.fixed_rotations) != self.evaluation_rounds:
            drawn = np.random.RandomState(self.seed).standard_normal((self.evaluation_rounds, *self.rotation_shape))
            self.fixed_rotations = torch.from_numpy(drawn)
        return self.fixed_rotations

    def new_cache(self, n_rows: int, capacity: int, like: Tensor) -> HashedCache:
        """An empty cache. It holds all tokens: every bucket may be asked for again."""
        shape = (n_rows, self.n_heads, capacity, self.head_size)
        return HashedCache(*shape, like, self.evaluation_rounds, self.n_buckets)


def normalised(q: Tensor) -> Tensor:
    """q / |q|; SMALLEST_SQUARE keeps a query of zeros."""
    wide = q.to(torch.promote_types(q.dtype, torch.float32))
    square = wide.square().mean(-1, keepdim=True) + SMALLEST_SQUARE
    return (wide * (square * q.shape[-1]).rsqrt()).to(q.dtype)


def hashed(k_BHLK: Tensor, rotations_HKE: Tensor) -> Tensor:
    """bucket_BHL = argmax [k R; −k R], for few tokens at a time: with many buckets, the products are large."""
    B, H, L, _ = k_BHLK.shape
    half = rotations_HKE.shape[-1]
    bucket_BHL = k_BHLK.new_empty(B, H, L, dtype=torch.int64)
    step = max(HASHED_AT_ONCE // (B * H * half), 1)
    for start in range(0, L, step):
        rows = slice(start, start + step)
        product_BHLE = k_BHLK[:, :, rows] @ rotations_HKE
        top, most = product_BHLE.max(-1)
        bottom, least = product_BHLE.min(-1)
        bucket_BHL[:, :, rows] = torch.where(top >= -bottom, most, least + half)
    return bucket_BHL


def seen_pairs(query_SBHL: Tensor, key_SBHM: Tensor) -> Tensor:
    """seen_BHLM: whether in any round the key is in the query's chunk or the one before, by their places."""
    found: Tensor | None = None
    for query_BHL, key_BHM in zip(query_SBHL, key_SBHM, strict=True):
        here = (query_BHL[..., None] - key_BHM[..., None, :]) >> 1 == 0
        found = here if found is None else found.logical_or_(here)
    assert found is not None
    return found


def real_keys(mask: Mask | None, k_BHMK: Tensor) -> Tensor:
    """real_BHM: the keys that any query may see. The others are padding."""
    if not isinstance(mask, Tensor):
        return torch.ones((), dtype=torch.bool, device=k_BHMK.device).expand(k_BHMK.shape[:3])
    return mask.any(-2).expand(k_BHMK.shape[:3])


def load_of(bucket_SBHL: Tensor, n_buckets: int, seen: int, causal: bool, real_BHM: Tensor) -> BucketLoad:
    S = len(bucket_SBHL)
    bucket_XL = bucket_SBHL.flatten(0, -2)
    sizes = bucket_XL.new_zeros(len(bucket_XL), n_buckets + 1)
    sizes.scatter_add_(1, bucket_XL, torch.ones_like(bucket_XL))
    real = real_BHM.sum(-1)
    pairs = int((real * (real - 1)).sum())
    largest = int(sizes[:, :n_buckets].max())
    return BucketLoad(int(real.sum()) * S, len(bucket_XL) * n_buckets, largest, seen, pairs // 2 if causal else pairs)


def bucket_load(model: nn.Module) -> BucketLoad | None:
    """Of all LSH attentions of a model since the last call; None: it has none."""
    found = [module for module in model.modules() if isinstance(module, LshAttention)]
    total = BucketLoad()
    for module in found:
        total, module.load = total + module.load, BucketLoad()
    return total if found else None
