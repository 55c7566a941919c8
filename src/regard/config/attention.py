"""One dataclass per kind of attention: a tagged union, distinguished by `kind`.

`core/attention/build.py` builds the module of each kind. A model selects one with `[model.attention] kind = "full"`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.config.parsing import setting
from regard.errors import ConfigError

AttentionRole = Literal["encoder", "decoder", "cross"]
SparsePattern = Literal["local", "strided", "fixed"]
SparseCombination = Literal["heads", "merged", "layers"]
MOST_TOKENS = 2**31 - 1  # of a text, and so of what is counted in tokens
MOST_HASHES = 2**20  # buckets × rounds of LSH attention: memory grows with them, however short the text is
MOST_ROUNDS = 1024  # and time with the rounds
SUMMARY_COLUMNS = 8  # the default
RingLayout = Literal["contiguous", "zigzag"]
ProjectionSharing = Literal["none", "head", "kv", "layer"]


@dataclass(frozen=True)
class FullAttention:
    """The paper's multi-head attention: every query attends to every key that the mask allows."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder", "cross")
    kind: Literal["full"] = field(default="full", kw_only=True)


@dataclass(frozen=True)
class LatentAttentionConfig:
    """DeepSeek-V2's latent attention; `DeepSeekConfig` has the same fields and builds it from them."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("decoder",)
    kind: Literal["latent"] = field(default="latent", kw_only=True)
    q_rank: int = setting(0, low=0)
    kv_rank: int = setting(64, low=1)
    head_size: int = setting(32, low=1)
    rotary_size: int = setting(16, low=2)
    value_size: int = setting(32, low=1)
    rope_theta: float = setting(10_000.0, low=1.0)
    rope_scaling_factor: float = setting(1.0, low=1.0)
    rope_original_length: int = setting(4096, low=1)


@dataclass(frozen=True)
class BlockwiseAttentionConfig:
    """Full attention and feed-forward networks computed block by block: the same numbers in less memory."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder", "cross")
    kind: Literal["blockwise"] = field(default="blockwise", kw_only=True)
    block: int = setting(512, low=1, high=MOST_TOKENS)  # tokens


@dataclass(frozen=True)
class WindowAttentionConfig:
    """Longformer's sliding window, dilated or not, with global tokens."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder")
    kind: Literal["window"] = field(default="window", kw_only=True)
    window: tuple[int, ...] = (256,)  # tokens before, and in an encoder after: one number, or one per layer
    dilation: tuple[int, ...] = (1,)  # one number, or one per head; 3: every third token of a window 3 times as wide
    n_global_tokens: int = setting(0, low=0, high=MOST_TOKENS)  # the first, which see and are seen by everything

    def __post_init__(self) -> None:
        for name, numbers, least in (("window", self.window, 0), ("dilation", self.dilation, 1)):
            if not numbers or min(numbers) < least or max(numbers) > MOST_TOKENS:
                raise ConfigError(
                    f"model.attention.{name} = {list(numbers)} needs numbers from {least} to {MOST_TOKENS:,}"
                )


@dataclass(frozen=True)
class SparseAttentionConfig:
    """The Sparse Transformer's patterns."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder")
    kind: Literal["sparse"] = field(default="sparse", kw_only=True)
    patterns: tuple[SparsePattern, ...] = ("local", "strided")
    # heads: the patterns divide the heads; merged: every head sees what any pattern sees; layers: in turn
    combine: SparseCombination = "heads"
    stride: int = setting(
        128, low=1, high=MOST_TOKENS
    )  # l: reach of local, distance in strided, length of a block in fixed
    summary_columns: int = setting(
        SUMMARY_COLUMNS, low=0, high=MOST_TOKENS
    )  # c: the last columns of every block, of fixed

    def __post_init__(self) -> None:
        if not self.patterns or len(set(self.patterns)) < len(self.patterns):
            raise ConfigError(f"model.attention.patterns = {list(self.patterns)} must name different patterns")
        if "fixed" not in self.patterns:
            if self.summary_columns != SUMMARY_COLUMNS:
                raise ConfigError(
                    f"model.attention.summary_columns = {self.summary_columns} has no effect: only the pattern 'fixed' "
                    "uses it. Remove it"
                )
        elif self.summary_columns > self.stride:
            raise ConfigError(
                f"model.attention.summary_columns = {self.summary_columns} is more than a block has: "
                f"model.attention.stride = {self.stride}"
            )


@dataclass(frozen=True)
class BlockAttentionConfig:
    """BlockBERT's block-permuted attention: of each head, a block of queries sees one block of keys."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder",)
    kind: Literal["block"] = field(default="block", kw_only=True)
    length: int = setting(512, low=1, high=MOST_TOKENS)  # the longest input
    n_blocks: int = setting(2, low=1, high=MOST_TOKENS)
    shifts: tuple[int, ...] = (0, 1)  # of the keys' blocks against the queries', repeated over the heads

    def __post_init__(self) -> None:
        if self.length % self.n_blocks:
            raise ConfigError(f"model.attention.n_blocks = {self.n_blocks} does not divide length = {self.length}")
        if not self.shifts or not all(0 <= shift < self.n_blocks for shift in self.shifts):
            raise ConfigError(
                f"model.attention.shifts = {list(self.shifts)} needs numbers from 0 to "
                f"{self.n_blocks - 1}, one less than n_blocks"
            )


@dataclass(frozen=True)
class AdaptiveSpanConfig:
    """Adaptive spans: every head learns how far back it looks."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("decoder",)
    kind: Literal["adaptive_span"] = field(default="adaptive_span", kw_only=True)
    max_span: int = setting(1024, low=1, high=MOST_TOKENS)  # tokens, the query itself included
    initial_span: int = setting(0, low=0, high=MOST_TOKENS)
    ramp: int = setting(32, low=1, high=MOST_TOKENS)  # R: over so many tokens the weights fall to zero
    span_loss: float = setting(2e-6, low=0.0)  # per token of the mean span of a layer's heads, added to the loss

    def __post_init__(self) -> None:
        if self.initial_span > self.max_span:
            raise ConfigError(
                f"model.attention.initial_span = {self.initial_span} is more than max_span = {self.max_span}"
            )


@dataclass(frozen=True)
class LinformerConfig:
    """Linformer: keys and values are projected along the length, from the input's to a fixed one."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder",)
    kind: Literal["linformer"] = field(default="linformer", kw_only=True)
    length: int = setting(512, low=1, high=MOST_TOKENS)  # n: the longest input
    projected_length: int = setting(128, low=1, high=MOST_TOKENS)  # k
    # none: E and F per head; head: one E and one F per layer; kv: one E = F per layer; layer: one for all layers
    sharing: ProjectionSharing = "head"


@dataclass(frozen=True)
class LshAttentionConfig:
    """Reformer's LSH attention: queries are keys, and a token sees tokens of the same hash."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder")
    kind: Literal["lsh"] = field(default="lsh", kw_only=True)
    n_buckets: int = setting(
        32, low=1, high=MOST_HASHES
    )  # 1, or an even number; the paper's choice is 2 · length / chunk
    chunk: int = setting(
        64, low=1, high=MOST_TOKENS
    )  # tokens of a bucket; a token sees its own chunk and the one before
    n_rounds: int = setting(4, low=1, high=MOST_ROUNDS)  # of hashing; seen is what any round sees
    evaluation_rounds: int = setting(0, low=0, high=MOST_ROUNDS)  # 0: as many as in training
    hash_seed: int = setting(0, low=0, below=2**32)  # of the hashes outside of training

    def __post_init__(self) -> None:
        if self.n_buckets > 1 and self.n_buckets % 2:
            raise ConfigError(
                f"model.attention.n_buckets = {self.n_buckets} must be 1 or even: a rotation has two buckets per "
                "dimension"
            )
        rounds = max(self.n_rounds, self.evaluation_rounds)
        if self.n_buckets * rounds > MOST_HASHES:
            raise ConfigError(
                f"model.attention.n_buckets = {self.n_buckets:,} times {rounds:,} rounds is too large; the most is "
                f"{MOST_HASHES:,}"
            )


@dataclass(frozen=True)
class RingAttentionConfig:
    """Ring attention: blockwise attention over a text that is cut among processes."""

    roles: ClassVar[tuple[AttentionRole, ...]] = ("encoder", "decoder", "cross")
    kind: Literal["ring"] = field(default="ring", kw_only=True)
    block: int = setting(512, low=1, high=MOST_TOKENS)  # tokens
    layout: RingLayout = "zigzag"  # zigzag: equal work under a causal mask


AttentionConfig = (
    FullAttention
    | LatentAttentionConfig
    | BlockwiseAttentionConfig
    | WindowAttentionConfig
    | SparseAttentionConfig
    | BlockAttentionConfig
    | AdaptiveSpanConfig
    | LinformerConfig
    | LshAttentionConfig
    | RingAttentionConfig
)
FULL_ATTENTION = FullAttention()  # the default of every model with multi-head attention


def check_attention(
    attention: AttentionConfig,
    role: AttentionRole,
    *,
    n_layers: int,
    n_heads: int,
    longest: int | None = None,
    scored_positions: bool = False,
    where: str = "model.attention",
) -> None:
    """Raise for a kind that this place in a model cannot have.

    `longest`: the most tokens that the model takes, None: no limit. `scored_positions`: positions act on the scores.
    """
    kind = f"{where}.kind = {attention.kind!r}"
    if isinstance(attention, LatentAttentionConfig):
        raise ConfigError(f"{kind} is the attention of model.family = 'deepseek' only")
    check_role(attention, role, kind)
    if scored_positions and not isinstance(attention, FullAttention | BlockwiseAttentionConfig):
        raise ConfigError(
            f"{kind} cannot have positions that act on the scores (alibi, relative): set another model.position, or "
            f"{where}.kind = 'full' or 'blockwise'"
        )
    if isinstance(attention, WindowAttentionConfig):
        check_count(f"{where}.window", len(attention.window), n_layers, "layers")
        check_count(f"{where}.dilation", len(attention.dilation), n_heads, "heads")
    if isinstance(attention, SparseAttentionConfig):
        patterns = len(attention.patterns)
        if attention.combine == "heads" and patterns > n_heads:
            raise ConfigError(f"{where}.patterns has {patterns} patterns for {n_heads} heads")
    if isinstance(attention, BlockAttentionConfig | LinformerConfig) and longest and longest > attention.length:
        raise ConfigError(
            f"{where}.length = {attention.length} is less than the {longest} tokens that the model takes: set it to "
            f"{longest}"
        )


def check_role(attention: AttentionConfig, role: AttentionRole, kind: str) -> None:
    if role not in attention.roles:
        raise ConfigError(
            f"{kind} cannot be used as {role} attention, only as {' or '.join(attention.roles)} attention"
        )


def check_count(name: str, count: int, wanted: int, things: str) -> None:
    if count not in (1, wanted):
        raise ConfigError(f"{name} has {count} numbers; it needs one, or one for each of the {wanted} {things}")


def feed_forward_block(attention: AttentionConfig) -> int:
    """In how many tokens at a time the feed-forward networks beside it are computed; 0: all at once."""
    return attention.block if isinstance(attention, BlockwiseAttentionConfig | RingAttentionConfig) else 0
