"""Parameter counts: every parameter of a model with its shape, size and group.

The model is built on the meta device, which allocates no memory, so that models of any size can be counted. A matrix
used in several places (the paper, section 3.4) is one row, counted once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import nn

from regard.config import (
    BertConfig,
    DeepSeekConfig,
    FamilyConfig,
    GptConfig,
    RecurrentConfig,
    T5Config,
    TransformerConfig,
    TranslationConfig,
    ViTConfig,
)
from regard.config.support import ATTENTIONS, FEED_FORWARDS, MOE, SomeOf, Support, any_value
from regard.core.attention.additive import AdditiveAttention, DotAttention
from regard.core.attention.latent import LatentAttention
from regard.core.attention.linformer import Linformer
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.window import WindowAttention
from regard.core.embeddings import Embedding
from regard.core.feedforward import GATED, FeedForward
from regard.core.moe import Experts, Router, SharedExperts
from regard.core.norms import LayerNorm, RMSNorm
from regard.core.positions import Positions
from regard.core.recurrent import GATES as CELL_GATES
from regard.core.recurrent import Recurrence
from regard.errors import ConfigError
from regard.models.bert import Bert, MaskedHead, Pooler
from regard.models.build import build_model
from regard.models.recurrent import Bridge, DecoderLayer, DeepOutput
from regard.models.translation_model import TranslationModel
from regard.models.vit import ClassHead, PatchEmbedding

Group = Literal["attention", "recurrence", "ffn", "embeddings", "norms", "positions", "experts", "router"]
GROUPS: tuple[Group, ...] = get_args(Group)

FFN_CHOICES = (*FEED_FORWARDS, "moe")
RESIDUALS = ("standard", "reversible")
TIED_EMBEDDINGS = ("all", "output", "none")
STACKS = any_value("d_model", "n_encoder_layers", "n_decoder_layers", "dropout", "src_vocab_size", "tgt_vocab_size")
LAYERS = any_value("d_model", "n_heads", "d_ff", "n_layers", "norm_eps", "dropout", "attention_dropout")
SUPPORT = Support(
    "the parameter ledger",
    {
        TransformerConfig: {
            "family": ("transformer",),
            "position": ("sinusoidal", "learned", "rotary", "alibi", "relative", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "ffn": FFN_CHOICES,
            "tie_embeddings": TIED_EMBEDDINGS,
            "attention": ATTENTIONS,
            "decoder_attention": ATTENTIONS,
            "cross_attention": ATTENTIONS,
            "residual": RESIDUALS,
            "moe": MOE,
            **STACKS,
            **any_value("n_heads", "d_ff", "max_positions", "output_bias", "attention_dropout", "activation_dropout"),
        },
        RecurrentConfig: {
            "family": ("recurrent",),
            "cell": ("rnn", "gru", "lstm"),
            "attention": ("none", "additive", "dot"),
            "bidirectional": ("none", "first", "all"),
            "tie_embeddings": TIED_EMBEDDINGS,
            **STACKS,
            **any_value("residual", "deep_output"),
        },
        T5Config: {
            "family": ("t5",),
            "ffn": FFN_CHOICES,
            "tie_embeddings": ("all", "inputs"),
            "attention": ATTENTIONS,
            "moe": MOE,
            **STACKS,
            **any_value("n_heads", "head_size", "d_ff", "n_buckets", "max_distance", "norm_eps", "scale_output"),
            **any_value("output_bias"),
        },
        GptConfig: {
            "family": ("gpt",),
            "residual": RESIDUALS,
            "ffn": FFN_CHOICES,
            "attention": ATTENTIONS,
            "moe": MOE,
            **LAYERS,
            **any_value("max_positions", "vocab_size"),
        },
        BertConfig: {
            "family": ("bert",),
            "ffn": FFN_CHOICES,
            "attention": ATTENTIONS,
            "moe": MOE,
            "heads": SomeOf(("masked", "next", "classes", "tags")),
            **LAYERS,
            **any_value("max_positions", "n_segments", "pooler", "n_labels", "vocab_size"),
        },
        DeepSeekConfig: {
            "family": ("deepseek",),
            "moe": MOE,
            **any_value("d_model", "n_heads", "d_ff", "n_layers", "n_dense_layers", "norm_eps", "dropout"),
            **any_value("q_rank", "kv_rank", "head_size", "rotary_size", "value_size"),
            **any_value("rope_theta", "rope_scaling_factor", "rope_original_length", "tie_embeddings", "vocab_size"),
        },
        ViTConfig: {
            "family": ("vit",),
            "ffn": FFN_CHOICES,
            "attention": ATTENTIONS,
            "moe": MOE,
            **LAYERS,
            **any_value("image_size", "patch_size", "channels", "mean", "std", "n_labels"),
        },
    },
)


@dataclass(frozen=True)
class Row:
    """One parameter, named as in `weights.safetensors`; or, folded, that of several identical layers."""

    name: str
    shape: tuple[int, ...]
    group: Group
    note: str = ""
    times: int = 1  # the number of layers that have it
    used: float = 1.0  # the fraction used per token: of the experts, those routed to; of an input embedding, one row

    @property
    def count(self) -> int:
        return math.prod(self.shape) * self.times

    @property
    def active(self) -> int:
        return round(self.count * self.used)


@dataclass(frozen=True)
class Ledger:
    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        return sum(row.count for row in self.rows)

    @property
    def active(self) -> int:
        """The parameters used per token; with experts, fewer than all."""
        return sum(row.active for row in self.rows)

    @property
    def totals(self) -> dict[Group, int]:
        """The number of parameters per group, empty groups included."""
        return {group: sum(row.count for row in self.rows if row.group == group) for group in GROUPS}

    @property
    def shares(self) -> dict[Group, float]:
        """The fraction of the total per group."""
        return {group: count / self.total for group, count in self.totals.items()}

    def folded(self) -> tuple[Row, ...]:
        """The rows with identical layers as one: `encoder.0…5.ffn.up.weight`, times 6."""
        return fold(self.rows)


def ledger(config: FamilyConfig) -> Ledger:
    """The parameters of the model that `config` describes."""
    SUPPORT.check(config)
    if not all(config.vocabulary_sizes):
        both = "model.src_vocab_size and model.tgt_vocab_size"
        raise ConfigError(
            "the size of the vocabulary is not known yet: set "
            f"{both if isinstance(config, TranslationConfig) else 'model.vocab_size'} "
            "(training takes it from the tokenizer)"
        )
    with torch.device("meta"):
        model = build_model(config, initialise=False)
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return Ledger(
        tuple(
            Row(
                name,
                tuple(parameter.shape),
                group_of(model, name),
                note_on(model, name, names[id(parameter)][1:]),
                used=fraction_used(model, names[id(parameter)]),
            )
            for name, parameter in model.named_parameters()
        )
    )


def fraction_used(model: nn.Module, names: Sequence[str]) -> float:
    """The fraction of a parameter, given all its names, that is used per token."""
    owner = model.get_submodule(names[0].rpartition(".")[0])
    if isinstance(owner, Experts):
        router = model.get_submodule(names[0].rpartition(".experts.")[0] + ".gate")
        assert isinstance(router, Router)
        return router.experts_per_token / len(owner.up_weight)
    looked_up = isinstance(owner, Embedding) and not any(name.startswith("output.") for name in names)
    return 1 / len(owner.weight) if isinstance(owner, Embedding) and looked_up else 1.0


def group_of(model: nn.Module, name: str) -> Group:
    """The group of a parameter, by the innermost module that determines one."""
    path = name
    while path:
        path = path.rpartition(".")[0]
        match model.get_submodule(path):
            case MultiHeadAttention() | LatentAttention() | AdditiveAttention() | DotAttention():
                return "attention"
            case Recurrence() | DecoderLayer() | Bridge():
                return "recurrence"
            case Experts() | SharedExperts():
                return "experts"
            case Router():
                return "router"
            case FeedForward() | DeepOutput() | Pooler() | MaskedHead() | Bert():
                return "ffn"
            case Embedding() | PatchEmbedding() | ClassHead() | TranslationModel():  # the last: output bias
                return "embeddings"
            case LayerNorm() | RMSNorm():
                return "norms"
            case Positions():
                return "positions"
    raise TypeError(f"{name} belongs to no group of the ledger")


def note_on(model: nn.Module, name: str, other_names: Sequence[str]) -> str:
    """Several matrices stored as one, or one matrix used in several places."""
    if other_names:
        return "shared with " + " and ".join(other.removesuffix(".weight") for other in other_names)
    path, _, kind = name.rpartition(".")
    if isinstance(experts := model.get_submodule(path), Experts):
        gated = " W_gate W_up" if experts.kind in GATED and kind == "up_weight" else ""
        return f"{len(experts.up_weight)} experts{gated}"
    owner, _, part = path.rpartition(".")
    letter = "W" if kind == "weight" else "b"
    match model.get_submodule(owner), part:
        case MultiHeadAttention(), "qkv":
            return f"{letter}_Q {letter}_K {letter}_V"
        case WindowAttention(), "global_qkv":
            return f"{letter}_Q {letter}_K {letter}_V of global tokens"
        case Linformer(sharing=sharing), "project_k":
            return "E" if sharing in ("none", "head") else "E = F"
        case Linformer(), "project_v":
            return "F"
        case MultiHeadAttention(), "out":
            return f"{letter}_O"
        case FeedForward(kind="swiglu"), "up":
            return f"{letter}_gate {letter}_up"
        case Recurrence(kind=cell), "inputs" if cell != "rnn":
            return " ".join(f"{letter}_{gate}" for gate in CELL_GATES[cell])
        case Recurrence(kind=cell), "recurrent" if cell != "rnn":
            return " ".join(f"{'U' if kind == 'weight' else 'u'}_{gate}" for gate in CELL_GATES[cell])
    return ""


def fold(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Merge rows that differ only in the index of their layer, at the position of the first."""
    alike: dict[Row, list[tuple[Row, str]]] = {}
    for row in rows:
        number = re.search(r"(?<=\.)\d+(?=\.)", row.name)
        key = replace(row, name=re.sub(r"(?<=\.)\d+(?=\.)", "#", row.name, count=1))
        alike.setdefault(key, []).append((row, number[0] if number else ""))
    folded = []
    for key, members in alike.items():
        row = members[0][0]
        if len(members) > 1:
            layers = ranges([int(number) for _, number in members])
            row = replace(key, name=key.name.replace("#", layers), times=sum(r.times for r, _ in members))
        folded.append(row)
    return tuple(folded)


def ranges(numbers: Sequence[int]) -> str:
    """0, 2, 3, 4 as 0,2…4"""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ",".join(f"{first}…{last}" if last > first else str(first) for first, last in zip(starts, ends, strict=True))
