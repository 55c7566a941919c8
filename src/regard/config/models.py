"""The settings of a model, one dataclass a family, and the sizes that have names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from regard.config.attention import FULL_ATTENTION, AttentionConfig, LatentAttentionConfig, check_attention
from regard.config.parsing import divisors, setting
from regard.errors import ConfigError

Position = Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]
NormOrder = Literal["post", "pre"]
NormKind = Literal["layernorm", "rmsnorm"]
FeedForwardKind = Literal["relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu"]
TiedEmbeddings = Literal["all", "output", "none"]
T5TiedEmbeddings = Literal["all", "inputs"]
CellKind = Literal["rnn", "gru", "lstm"]
RecurrentAttention = Literal["none", "additive", "dot"]
Bidirectional = Literal["none", "first", "all"]
BertHead = Literal["masked", "next", "classes", "tags"]
FeedForwardChoice = Literal[FeedForwardKind, "moe"]
GateKind = Literal["sigmoid", "softmax"]
LoadBalancing = Literal["bias", "loss", "none"]

ONE_VOCABULARY = (
    "model.tie_embeddings = 'all' needs one vocabulary for both languages: set data.tokenizer.joint = true, "
    "or model.tie_embeddings = 'output'"
)


@dataclass(frozen=True)
class MixtureConfig:
    """A mixture of experts in the place of a feed-forward network. The defaults are DeepSeek-V3's, small."""

    n_experts: int = setting(8, low=1)
    experts_per_token: int = setting(2, low=1, formerly="n_active")  # routed experts per token
    n_shared_experts: int = setting(1, low=0, formerly="n_shared")  # experts that every token goes to
    d_ff: int = setting(0, low=0)  # of each expert; 0: the model's d_ff
    kind: FeedForwardKind = "swiglu"
    n_groups: int = setting(1, low=1)  # groups of experts; a token's experts are in its best groups_per_token
    groups_per_token: int = setting(1, low=1, formerly="n_active_groups")
    gate: GateKind = "sigmoid"
    normalise_gates: bool = setting(True, formerly="normalise")  # gates of a token add up to routed_scaling_factor
    routed_scaling_factor: float = setting(1.0, low=0.0, formerly="scale")
    # bias: a bias per expert, adapted to its load (DeepSeek-V3); loss: an auxiliary loss (Switch Transformer)
    load_balancing: LoadBalancing = setting("bias", formerly="balance")
    # the bias update per step, or the weight of the loss
    load_balancing_rate: float = setting(0.001, low=0.0, formerly="balance_rate")

    def __post_init__(self) -> None:
        if self.n_experts % self.n_groups or self.groups_per_token > self.n_groups:
            raise ConfigError(
                f"model.moe: {self.n_experts} experts in {self.n_groups} groups, {self.groups_per_token} of them used: "
                f"n_groups must divide n_experts, and groups_per_token must not be more than n_groups"
            )
        if self.experts_per_token > self.n_experts // self.n_groups * self.groups_per_token:
            raise ConfigError(
                f"model.moe.experts_per_token = {self.experts_per_token} exceeds the experts a token may choose from, "
                f"n_experts / n_groups · groups_per_token = {self.n_experts // self.n_groups * self.groups_per_token}"
            )
        if self.normalise_gates and self.experts_per_token == 1 < self.n_experts:
            raise ConfigError(
                "model.moe.experts_per_token = 1 with normalise_gates = true gives every token's only expert gate "
                "weight 1, so the router gets no gradient: set model.moe.normalise_gates = false, or "
                "experts_per_token = 2"
            )


@dataclass(frozen=True)
class TransformerConfig:
    """The encoder–decoder Transformer. The defaults are the paper's, at size `small`."""

    family: Literal["transformer"] = field(default="transformer", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_encoder_layers: int = setting(3, low=1)
    n_decoder_layers: int = setting(3, low=1)
    position: Position = "sinusoidal"
    max_positions: int = setting(1024, low=1)  # of learned positions; the others have no limit
    norm_order: NormOrder = "post"
    norm: NormKind = "layernorm"
    ffn: FeedForwardChoice = "relu"  # moe: a mixture of experts, as `moe` says
    # all: source, target and output embeddings are one matrix; output: target and output are one matrix
    tie_embeddings: TiedEmbeddings = setting("all", formerly="sharing")
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    activation_dropout: float = setting(0.0, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)
    output_bias: bool = False  # a number a word, added to the logits; Marian has it
    moe: MixtureConfig = MixtureConfig()  # where ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        check_attention(self.attention)
        check_heads(self.d_model, self.n_heads)
        if self.position == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ConfigError(
                f"model.position = 'rotary' turns pairs of dimensions, so d_model / n_heads must be even; "
                f"it is {self.d_model // self.n_heads}"
            )
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


@dataclass(frozen=True)
class RecurrentConfig:
    """The recurrent encoder–decoder, without attention or with it."""

    family: Literal["recurrent"] = field(default="recurrent", kw_only=True)
    cell: CellKind = "lstm"
    attention: RecurrentAttention = "additive"  # none: the sentence is one vector; additive: Bahdanau's; dot: Luong's
    d_model: int = setting(256, low=1)  # units of a layer, each direction, and size of the embeddings
    n_encoder_layers: int = setting(1, low=1)
    n_decoder_layers: int = setting(1, low=1)
    bidirectional: Bidirectional = "first"  # which encoder layers read the sentence from both ends
    residual: bool = False  # x + layer(x), from the third layer on
    deep_output: bool = True  # the prediction sees context and last word too, not the state alone
    # all: source, target and output embeddings are one matrix; output: target and output are one matrix
    tie_embeddings: TiedEmbeddings = setting("all", formerly="sharing")
    dropout: float = setting(0.2, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


@dataclass(frozen=True)
class T5Config:
    """T5 (Raffel et al. 2020). The defaults are the paper's, at size `small`."""

    family: Literal["t5"] = field(default="t5", kw_only=True)
    d_model: int = setting(512, low=1)
    n_heads: int = setting(8, low=1)
    head_size: int = setting(64, low=1)  # its own: n_heads · head_size need not be d_model
    d_ff: int = setting(2048, low=1)
    n_encoder_layers: int = setting(6, low=1)
    n_decoder_layers: int = setting(6, low=1)
    ffn: FeedForwardChoice = "relu"  # version 1.1 of the released models, and mT5: geglu
    n_buckets: int = setting(32, low=4)  # of distances, each of which has a number a head
    max_distance: int = setting(128, low=2)  # the last bucket has all that is farther
    norm_eps: float = setting(1e-6, low=0.0)
    # all: source, target and output embeddings are one matrix; inputs (T5 1.1, mT5): source and target are one matrix
    tie_embeddings: T5TiedEmbeddings = setting("all", formerly="sharing")
    scale_output: bool = True  # the last vector times d_model^-0.5; version 1.1 and mT5: false
    dropout: float = setting(0.1, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)
    moe: MixtureConfig = MixtureConfig()  # where ffn = "moe"
    output_bias: bool = False  # a number a word, added to the logits; T5 has none, but what is imported needs it
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        check_attention(self.attention)
        if self.max_distance <= self.n_buckets // 2:
            raise ConfigError(
                f"model.max_distance = {self.max_distance} must be more than half of model.n_buckets = "
                f"{self.n_buckets}: so many distances have a bucket of their own"
            )
        if self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError("T5 needs one vocabulary for both languages: set data.tokenizer.joint = true")


@dataclass(frozen=True)
class GptConfig:
    """The decoder-only Transformer: GPT-2's shape, small."""

    family: Literal["gpt"] = field(default="gpt", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_layers: int = setting(4, low=1)
    max_positions: int = setting(256, low=1)  # the longest text it sees at once, in tokens
    ffn: FeedForwardChoice = "gelu_tanh"
    norm_eps: float = setting(1e-5, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.1, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    moe: MixtureConfig = MixtureConfig()  # where ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        check_attention(self.attention)
        check_heads(self.d_model, self.n_heads)


@dataclass(frozen=True)
class BertConfig:
    """The encoder-only Transformer with the heads that it is trained and used with."""

    family: Literal["bert"] = field(default="bert", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_layers: int = setting(4, low=1)
    max_positions: int = setting(512, low=1)  # the longest text, in tokens, [CLS] and [SEP] among them
    n_segments: int = setting(2, low=1)  # kinds of text side by side: a sentence and the next one
    heads: tuple[BertHead, ...] = ("masked", "next")
    pooler: bool = True  # the first token's vector once more through a layer: what next and classes look at
    n_labels: int = setting(0, low=0)  # of the heads classes and tags; 0: those of the data
    ffn: FeedForwardChoice = "gelu"
    norm_eps: float = setting(1e-12, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.1, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    moe: MixtureConfig = MixtureConfig()  # where ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        check_attention(self.attention)
        check_heads(self.d_model, self.n_heads)
        needy = [head for head in self.heads if head in ("next", "classes")]
        if needy and not self.pooler:
            raise ConfigError(f"model.heads has {needy[0]!r}, which looks at the pooler: set model.pooler = true")
        if len(set(self.heads)) < len(self.heads):
            raise ConfigError(f"model.heads = {list(self.heads)} names a head twice")


@dataclass(frozen=True)
class DeepSeekConfig:
    """DeepSeek-V3's decoder: latent attention and a mixture of experts, small."""

    family: Literal["deepseek"] = field(default="deepseek", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)  # of the layers without experts
    n_layers: int = setting(4, low=1)
    n_dense_layers: int = setting(1, low=0)  # the first of them have no experts
    q_rank: int = setting(0, low=0)  # size of the queries' latent vector; 0: they have none
    kv_rank: int = setting(64, low=1)  # size of the latent vector that keys and values are made of
    head_size: int = setting(32, low=1)  # of queries and keys, besides the part that is turned
    rotary_size: int = setting(16, low=2)  # the part that is turned: a key's is one for all heads
    value_size: int = setting(32, low=1)
    moe: MixtureConfig = MixtureConfig()
    norm_eps: float = setting(1e-6, low=0.0)
    rope_theta: float = setting(10_000.0, low=1.0, formerly="rotary_base")
    rope_scaling_factor: float = setting(1.0, low=1.0, formerly="rotary_stretch")  # YaRN
    rope_original_length: int = setting(4096, low=1, formerly="rotary_length")  # longest text before YaRN scaling
    tie_embeddings: bool = setting(False, formerly="tied")  # input and output embeddings are one matrix
    dropout: float = setting(0.0, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's

    def __post_init__(self) -> None:
        if self.rotary_size % 2:
            raise ConfigError(f"model.rotary_size = {self.rotary_size} must be even: dimensions are turned in pairs")

    @property
    def attention(self) -> LatentAttentionConfig:
        return LatentAttentionConfig(
            q_rank=self.q_rank,
            kv_rank=self.kv_rank,
            head_size=self.head_size,
            rotary_size=self.rotary_size,
            value_size=self.value_size,
            rope_theta=self.rope_theta,
            rope_scaling_factor=self.rope_scaling_factor,
            rope_original_length=self.rope_original_length,
        )


@dataclass(frozen=True)
class ViTConfig:
    """The Vision Transformer, for small grey images."""

    family: Literal["vit"] = field(default="vit", kw_only=True)
    image_size: int = setting(28, low=1)  # images are square
    patch_size: int = setting(4, low=1)
    channels: int = setting(1, low=1, high=4)  # 1: grey; 3: red, green, blue
    mean: tuple[float, ...] = (0.5,)  # of the pixels, from 0 to 1, for all channels or for each: (pixel − mean) / std
    std: tuple[float, ...] = (0.5,)
    d_model: int = setting(128, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(512, low=1)
    n_layers: int = setting(6, low=1)
    ffn: FeedForwardChoice = "gelu"
    norm_eps: float = setting(1e-6, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    n_labels: int = setting(0, low=0)  # 0: those of the data
    moe: MixtureConfig = MixtureConfig()  # where ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        check_attention(self.attention)
        check_heads(self.d_model, self.n_heads)
        if self.image_size % self.patch_size:
            raise ConfigError(
                f"model.patch_size = {self.patch_size} does not divide model.image_size = {self.image_size}: "
                f"take one of {divisors(self.image_size)}"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels):
                raise ConfigError(f"model.{name} has {len(values)} numbers; it needs one, or {self.channels}")
        if min(self.std) <= 0:
            raise ConfigError(f"model.std = {list(self.std)} divides the pixels, so it must be above 0")


def check_heads(d_model: int, n_heads: int) -> None:
    if d_model % n_heads:
        raise ConfigError(
            f"model.n_heads = {n_heads} does not divide model.d_model = {d_model}: every head gets "
            f"d_model / n_heads dimensions, so take one of {divisors(d_model)}"
        )


# What translates: it has a source and a target, and a vocabulary for each.
TranslationConfig = TransformerConfig | RecurrentConfig | T5Config
# What goes on with a text: it has one vocabulary.
LanguageConfig = GptConfig | DeepSeekConfig
# A model of any family. The first is meant where a recipe or a model folder does not say: once it was the only one.
FamilyConfig = TranslationConfig | LanguageConfig | BertConfig | ViTConfig


def vocabulary_sizes(model: FamilyConfig) -> tuple[int, ...]:
    """Of source and target, of the one vocabulary, or of none, where a model sees pictures; 0: not known yet."""
    match model:
        case TransformerConfig() | RecurrentConfig() | T5Config():
            return model.src_vocab_size, model.tgt_vocab_size
        case GptConfig() | DeepSeekConfig() | BertConfig():
            return (model.vocab_size,)
        case ViTConfig():
            return ()
        case _:
            assert_never(model)


def with_vocabulary(model: FamilyConfig, src: int, tgt: int | None = None) -> FamilyConfig:
    """The same model for vocabularies of these sizes; for one vocabulary, `src`."""
    match model:
        case TransformerConfig() | RecurrentConfig() | T5Config():
            return replace(model, src_vocab_size=src, tgt_vocab_size=src if tgt is None else tgt)
        case GptConfig() | DeepSeekConfig() | BertConfig():
            return replace(model, vocab_size=src)
        case ViTConfig():
            return model
        case _:
            assert_never(model)


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1},
    "base": {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.3},
    # For texts by character, on a machine without a graphics card. Radford et al. 2019, the smallest of the four; Brown
    # et al. 2020, the largest of the eight.
    "gpt-small": {
        "family": "gpt", "d_model": 384, "n_heads": 6, "d_ff": 1536, "n_layers": 6, "max_positions": 256,
        "dropout": 0.2,
    },
    "gpt2": {
        "family": "gpt", "d_model": 768, "n_heads": 12, "d_ff": 3072, "n_layers": 12, "max_positions": 1024,
    },
    "gpt3": {
        "family": "gpt", "d_model": 12_288, "n_heads": 96, "d_ff": 49_152, "n_layers": 96, "max_positions": 2048,
    },
    # Turc et al. 2019, with the heads of its pre-training. Devlin et al. 2019: what is left when they are taken off.
    "bert-mini": {
        "family": "bert", "d_model": 256, "n_heads": 4, "d_ff": 1024, "n_layers": 4, "max_positions": 512,
    },
    "bert-base": {
        "family": "bert", "d_model": 768, "n_heads": 12, "d_ff": 3072, "n_layers": 12, "max_positions": 512,
        "heads": (),
    },
    # Dosovitskiy et al. 2021, ViT-B/16 on ImageNet's 1,000 classes.
    "vit-base": {
        "family": "vit", "image_size": 224, "patch_size": 16, "channels": 3, "d_model": 768, "n_heads": 12,
        "d_ff": 3072, "n_layers": 12, "n_labels": 1000,
    },
    # DeepSeek-AI 2024, without the module that predicts a second token.
    "deepseek-v3": {
        "family": "deepseek", "d_model": 7168, "n_heads": 128, "d_ff": 18_432, "n_layers": 61, "n_dense_layers": 3,
        "q_rank": 1536, "kv_rank": 512, "head_size": 128, "rotary_size": 64, "value_size": 128,
        "rope_scaling_factor": 40.0,
        "moe": {
            "n_experts": 256, "experts_per_token": 8, "n_shared_experts": 1, "d_ff": 2048, "n_groups": 8,
            "groups_per_token": 4, "routed_scaling_factor": 2.5,
        },
    },
    # Sutskever et al. 2014: four layers, one vector between the languages.
    "lstm": {
        "family": "recurrent", "cell": "lstm", "attention": "none", "d_model": 1000, "n_encoder_layers": 4,
        "n_decoder_layers": 4, "bidirectional": "none", "deep_output": False, "tie_embeddings": "none",
    },
    # Bahdanau et al. 2015: one layer, read from both ends, attended to.
    "bahdanau": {
        "family": "recurrent", "cell": "gru", "attention": "additive", "d_model": 1000, "n_encoder_layers": 1,
        "n_decoder_layers": 1, "bidirectional": "first", "deep_output": True, "tie_embeddings": "none",
    },
    # Wu et al. 2016: eight layers and eight.
    "gnmt": {
        "family": "recurrent", "cell": "lstm", "attention": "additive", "d_model": 1024, "n_encoder_layers": 8,
        "n_decoder_layers": 8, "bidirectional": "first", "residual": True, "deep_output": False,
        "tie_embeddings": "none",
    },
    # Raffel et al. 2020, section 3.7: two of the sizes that were released.
    "t5-small": {
        "family": "t5", "d_model": 512, "n_heads": 8, "head_size": 64, "d_ff": 2048, "n_encoder_layers": 6,
        "n_decoder_layers": 6,
    },
    "t5-base": {
        "family": "t5", "d_model": 768, "n_heads": 12, "head_size": 64, "d_ff": 3072, "n_encoder_layers": 12,
        "n_decoder_layers": 12,
    },
}  # fmt: skip

# The vocabularies that went with them, in tokens; without one of its own a preset is counted with the paper's 37,000.
VOCABULARIES: dict[str, int] = {
    "gpt2": 50_257, "gpt3": 50_257, "bert-mini": 30_522, "bert-base": 30_522, "t5-small": 32_128, "t5-base": 32_128,
    "deepseek-v3": 129_280,
}  # fmt: skip
