"""The Transformer, laid out for translating fast: the same mathematics as models/transformer.py, in fewer steps.

- Weights are laid out once for the matrix units, in float32, bf16 or int8; the stream between the layers is float32.
- Sources are packed without padding; a sentence's keys and values are computed once and shared by its hypotheses.
- The keys and values of each time stay where they were written. A table says in which row a hypothesis stood at each
  time, so that a beam that changes places copies a few integers.
- What lies between two products is one C++ kernel, and so is the choice of the best words.

Shapes: B sentences, M source length, R rows, D model, V vocabulary, T longest target, C continuations of a row.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import SearchPrecision
from regard.core.attention import MultiHeadAttention
from regard.core.embeddings import Embedding
from regard.core.feedforward import FeedForward
from regard.core.norms import LayerNorm, RMSNorm
from regard.core.positions import LearnedPositions, Positions, sinusoids
from regard.core.precision import choose_dtype
from regard.decode.constraints import NEVER_CHOSEN, not_numbers
from regard.decode.kernels import Form, Kernels, Made, Norm, Rows, load_kernels
from regard.decode.model import SearchModel
from regard.decode.products import Product
from regard.errors import ConfigError
from regard.models.transformer import Transformer
from regard.models.translation import TranslationModel
from regard.text.tokenizer import PAD


def build_searcher(model: TranslationModel, precision: SearchPrecision) -> SearchModel[Any]:
    """What to search with: an engine where there is one for the model on this machine, else the model itself."""
    device = model.output.weight.device
    form: Form = fastest_form() if precision == "auto" else precision
    if isinstance(model, Transformer) and (engine := build_engine(model, form)) is not None:
        return engine
    if precision == "int8":
        raise ConfigError(
            "precision int8 needs a Transformer with positions in its embeddings, a CPU and a C++ compiler; "
            "take bfloat16, float32 or auto"
        )
    if choose_dtype(precision, device) == torch.bfloat16:
        return copy.deepcopy(model).bfloat16()
    return model


def fastest_form() -> Form:
    """int8 where the CPU has units for it."""
    return "int8" if torch.cpu._is_vnni_supported() else "float32"


def build_engine(model: Transformer, form: Form) -> Engine | None:
    """The engine of a model; None where this machine or the model does not allow one."""
    c, weight = model.config, model.output.weight
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    if c.position not in ("sinusoidal", "learned", "none"):  # the others act on queries, keys or scores
        return None
    kernels = load_kernels(form, c.n_heads, c.d_model // c.n_heads)
    return None if kernels is None else Engine(model, kernels)


class SelfAttention:
    def __init__(self, attention: MultiHeadAttention, kernels: Kernels) -> None:
        self.qkv = Product(attention.qkv.weight, attention.qkv.bias, kernels)
        self.out = Product(attention.out.weight, attention.out.bias, kernels)


class CrossAttention:
    def __init__(self, attention: MultiHeadAttention, kernels: Kernels) -> None:
        weight, bias, size = attention.qkv.weight, attention.qkv.bias, attention.d_model
        self.query = Product(weight[:size], bias[:size], kernels)
        self.keys_and_values = Product(weight[size:], bias[size:], kernels)
        self.out = Product(attention.out.weight, attention.out.bias, kernels)


class FeedForwardPart:
    def __init__(self, ffn: FeedForward, kernels: Kernels) -> None:
        self.kernels, self.kind = kernels, ffn.kind
        self.up = Product(ffn.up.weight, ffn.up.bias, kernels)
        self.down = Product(ffn.down.weight, ffn.down.bias, kernels)

    def __call__(self, seen: Rows) -> Made:
        return self.down(self.kernels.activate(self.up(seen), self.kind))


class Stream:
    """x_RD on its way through the layers, with the norm that belongs to each sublayer.

    post: each sublayer's norm follows it.   pre: it precedes it, so what follows a sublayer is the next one's norm.
    """

    def __init__(self, norms: list[Norm], last: Norm | None, post: bool, kernels: Kernels) -> None:
        self.kernels, self.post = kernels, post
        self.first = None if post else norms[0]
        self.following: list[Norm | None] = [*norms] if post else [*norms[1:], last]

    def begin(self, x_RD: Tensor) -> Rows:
        """What the first sublayer sees."""
        return self.kernels.add_norm(None, x_RD, self.first, self.post)

    def add(self, sublayer: int, change: Made, x_RD: Tensor) -> Rows:
        """Add what a sublayer made, and give what the next one sees."""
        return self.kernels.add_norm(change, x_RD, self.following[sublayer], self.post)


class Engine:
    """Offers a search what the model itself does (decode/model.py), and `best` besides."""

    def __init__(self, model: Transformer, kernels: Kernels) -> None:
        post = model.config.norm_order == "post"
        self.model, self.kernels = model, kernels
        encoder, decoder = list(model.encoder), list(model.decoder)
        self.encoder_attentions = [SelfAttention(layer.attention, kernels) for layer in encoder]  # type: ignore[arg-type]
        self.encoder_ffns = [FeedForwardPart(layer.ffn, kernels) for layer in encoder]  # type: ignore[arg-type]
        self.attentions = [SelfAttention(layer.attention, kernels) for layer in decoder]  # type: ignore[arg-type]
        self.crosses = [CrossAttention(layer.cross, kernels) for layer in decoder]  # type: ignore[arg-type]
        self.ffns = [FeedForwardPart(layer.ffn, kernels) for layer in decoder]  # type: ignore[arg-type]
        norms = [layer_norms(layer, "around_attention", "around_ffn") for layer in encoder]
        self.encoder_stream = Stream(
            [norm for own in norms for norm in own], last_norm(model.encoder_norm), post, kernels
        )
        norms = [layer_norms(layer, "around_attention", "around_cross", "around_ffn") for layer in decoder]
        self.stream = Stream([norm for own in norms for norm in own], last_norm(model.decoder_norm), post, kernels)
        self.vocabulary = Product(model.output.weight, None, kernels)
        self.src_positions = PositionTable(model.src_positions, model.config.d_model)
        self.tgt_positions = PositionTable(model.tgt_positions, model.config.d_model)
        self.barred = torch.tensor(NEVER_CHOSEN)

    @property
    def longest_target(self) -> int | None:
        return self.model.longest_target

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """Whole targets gain nothing from an engine: the model's own logits."""
        return self.model(src_BM, tgt_BL)  # type: ignore[no-any-return]

    def embed(self, embedding: Embedding, table: PositionTable, ids_R: Tensor, place_R: Tensor, longest: int) -> Tensor:
        return self.kernels.embed(ids_R, embedding.weight, embedding.scale, table.up_to(longest), place_R)

    @torch.inference_mode()
    def begin(self, src_BM: Tensor, max_length: int) -> EngineState:
        """Encode, and make room for `max_length` target tokens; one row a sentence."""
        real_BM = src_BM != PAD
        length_B = real_BM.sum(dim=1)
        sentence_R, place_R = real_BM.nonzero(as_tuple=True)
        sources = Sources(length_B.cumsum(0) - length_B, length_B, int(length_B.max()))
        sentence_R, place_R = sentence_R.contiguous(), place_R.contiguous()
        x_RD = self.embed(self.model.src_embedding, self.src_positions, src_BM[real_BM], place_R, src_BM.shape[1])
        seen = self.encoder_stream.begin(x_RD)
        for layer, (attention, ffn) in enumerate(zip(self.encoder_attentions, self.encoder_ffns, strict=True)):
            qkv = attention.qkv(seen)
            kept = self.kernels.keep(qkv, x_RD.shape[1])
            seen = self.kernels.attend_sentence(qkv, kept, sentence_R, *sources)
            seen = self.encoder_stream.add(2 * layer, attention.out(seen), x_RD)
            seen = self.encoder_stream.add(2 * layer + 1, ffn(seen), x_RD)
        memories = [self.kernels.keep(cross.keys_and_values(seen), 0) for cross in self.crosses]
        return EngineState(memories, sources, max_length)

    def step(self, tokens_R: Tensor, state: EngineState) -> Tensor:
        """Feed one token a row; logits_RV of the next."""
        made = self.vocabulary(self.advance(tokens_R, state))
        return made.data_RN if made.scale_R is None else made.data_RN * made.scale_R[:, None]

    def best(self, tokens_R: Tensor, state: EngineState, width: int) -> tuple[Tensor, Tensor]:
        """(log_prob_RC, token_RC): the same step, and the `width` best words that a search may choose."""
        logits = self.vocabulary(self.advance(tokens_R, state))
        found = self.kernels.best(logits, self.barred, width)
        if found is None:
            raise not_numbers(state.length)
        return found

    @torch.inference_mode()
    def advance(self, tokens_R: Tensor, state: EngineState) -> Rows:
        """One token a row through the decoder: what stands before the projection on the vocabulary."""
        time, rows = state.length, len(tokens_R)
        place_R = torch.full_like(tokens_R, time)
        x_RD = self.embed(self.model.tgt_embedding, self.tgt_positions, tokens_R, place_R, time + 1)
        state.extend(rows)
        seen = self.stream.begin(x_RD)
        parts = zip(self.attentions, self.crosses, self.ffns, state.memories, strict=True)
        for layer, (attention, cross, ffn, memory) in enumerate(parts):
            qkv = attention.qkv(seen)
            kept_at = state.keep(layer, self.kernels.keep(qkv, x_RD.shape[1]))
            seen = self.kernels.attend_past(qkv, kept_at, state.table_RT, state.length)
            seen = self.stream.add(3 * layer, attention.out(seen), x_RD)
            seen = self.kernels.attend_sentence(cross.query(seen), memory, state.sentence_R, *state.sources)
            seen = self.stream.add(3 * layer + 1, cross.out(seen), x_RD)
            seen = self.stream.add(3 * layer + 2, ffn(seen), x_RD)
        return seen


class Sources(NamedTuple):
    """Where the keys of each sentence begin, how many they are, and the most that one has."""

    start_B: Tensor
    length_B: Tensor
    longest: int


class EngineState:
    """What a search remembers: the sources' keys and values, the past's, and who stood where."""

    def __init__(self, memories: list[Tensor], sources: Sources, max_length: int) -> None:
        self.memories, self.sources, self.length = memories, sources, 0
        self.sentence_R = torch.arange(len(sources.length_B))
        self.table_RT = torch.empty(len(self.sentence_R), max_length, dtype=torch.int64)
        self.past: list[Tensor] = []  # keeps alive what the addresses point to
        self.addresses = np.zeros((len(memories), max_length), dtype=np.uint64)

    def extend(self, rows: int) -> None:
        """A new time begins, in which each row stands where it stands now."""
        self.table_RT[:, self.length] = torch.arange(rows)
        self.length += 1

    def keep(self, layer: int, kept: Tensor) -> int:
        """Keep a layer's keys and values of the present time; where the addresses of all its times stand."""
        self.past.append(kept)
        self.addresses[layer, self.length - 1] = kept.data_ptr()
        return int(self.addresses.ctypes.data) + layer * self.addresses.strides[0]

    def reorder(self, rows_R: Tensor) -> None:
        self.table_RT = self.table_RT.index_select(0, rows_R)
        self.sentence_R = self.sentence_R.index_select(0, rows_R)


class PositionTable:
    """The rows that a position scheme adds to the embeddings, as many as are needed; None if it adds nothing."""

    def __init__(self, positions: Positions, d_model: int) -> None:
        self.positions, self.d_model = positions, d_model
        self.table_LD = torch.empty(0, d_model)

    def up_to(self, length: int) -> Tensor | None:
        if type(self.positions) is Positions:
            return None
        if isinstance(self.positions, LearnedPositions):
            return self.positions.table_LD
        if length > len(self.table_LD):
            self.table_LD = sinusoids(max(length, 256, 2 * len(self.table_LD)), self.d_model).float()
        return self.table_LD


def layer_norms(layer: nn.Module, *names: str) -> list[Norm]:
    return [norm_of(getattr(layer, name).norm) for name in names]


def norm_of(norm: nn.Module) -> Norm:
    match norm:
        case LayerNorm():
            return Norm(norm.weight, norm.bias, norm.eps, True)
        case RMSNorm():
            return Norm(norm.weight, None, norm.eps, False)
        case _:
            raise TypeError(f"an engine has no kernel for {type(norm).__name__}")


def last_norm(norm: nn.Module) -> Norm | None:
    """The norm at the end of a pre-norm stack."""
    return None if isinstance(norm, nn.Identity) else norm_of(norm)
