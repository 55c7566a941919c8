"""The recurrent encoder–decoder (sequence to sequence), the predecessor of the Transformer.

Without attention (Sutskever et al. 2014) the decoder is initialised from the encoder's last state, one vector, and gets
no other information about the source. With attention (Bahdanau et al. 2015) the decoder's bottom layer attends to all
states of the encoder before each step, and the context is an input of that step. With several layers it is GNMT's (Wu
et al. 2016): the same context is an input of all decoder layers, and residual connections begin at the third layer.
Since only the bottom layer attends, it runs over the whole target first; each layer above then gets all its inputs at
once.

Deviations. From Sutskever: a linear layer maps the vector to the initial state of each decoder layer; the source is not
reversed. From Bahdanau: embeddings and states have the same size; the decoder starts from the last states of both
directions, not of the backward one alone; the deep output has one tanh instead of maxout. From Luong (`dot`): only the
score is Luong's, the rest is Bahdanau's, so that the two can be compared. From GNMT: initial states as above; states
are not clipped, and nothing is quantised.

Shapes: B batch, L target length, M source length, D model, S source vectors (D, or 2 D if bidirectional), G gates times
D, V vocabulary, R rows of a search.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from regard.config import RecurrentConfig
from regard.core.accumulated_matmul import AccumulatedMatmul
from regard.core.attention.additive import AdditiveAttention, DotAttention, Memory
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding, build_embeddings
from regard.core.linear import Linear
from regard.core.masks import padding_mask
from regard.core.recurrent import Recurrence, RecurrentLayer, State
from regard.core.taps import Tap
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD

RESIDUAL_FROM = 2  # the third layer


def build_recurrent_attention(config: RecurrentConfig, d_memory: int) -> AdditiveAttention | DotAttention | None:
    match config.attention:
        case "none":
            return None
        case "additive":
            return AdditiveAttention(config.d_model, d_memory, config.d_model)
        case "dot":
            return DotAttention(config.d_model, d_memory)
        case _:
            assert_never(config.attention)


class DecoderLayer(nn.Module):
    """A recurrence over the target; its inputs are x_BLD and, with attention, the context of each step."""

    def __init__(self, config: RecurrentConfig, d_memory: int, bottom: bool) -> None:
        super().__init__()
        self.recurrence = Recurrence(config.cell, config.d_model, config.d_model)
        self.cross = build_recurrent_attention(config, d_memory) if bottom else None
        self.context: Linear | None = None
        if config.attention != "none":
            self.context = Linear(d_memory, self.recurrence.n_gates * config.d_model, bias=False)
        self.states = Tap()

    def forward(self, x_BLD: Tensor, context_BLS: Tensor | None, state: State) -> tuple[Tensor, State]:
        """out_BLD and the last state, given the contexts of the bottom layer (None without attention)."""
        from_input_BLG = self.recurrence.inputs(x_BLD)
        if self.context is not None:
            from_input_BLG = from_input_BLG + self.context(context_BLS)
        out_BLD, state = self.recurrence.run(from_input_BLG, state)
        return self.states(out_BLD), state

    def attend_and_run(self, x_BLD: Tensor, memory: Memory, state: State) -> tuple[Tensor, Tensor, State]:
        """The bottom layer: out_BLD, the context_BLS of each step, the last state."""
        assert self.cross is not None
        assert self.context is not None
        from_input_BLG = self.recurrence.inputs(x_BLD)
        transition, attend = self.recurrence.transition(x_BLD.dtype), self.cross.attend_to(memory)
        from_context = AccumulatedMatmul(self.context.weight.to(x_BLD.dtype).T)
        outputs, contexts = [], []
        for from_input_BG in from_input_BLG.unbind(1):
            context_BS = attend(state[0])
            state = self.recurrence.step(from_input_BG + from_context(context_BS), state, transition)
            contexts.append(context_BS)
            outputs.append(state[0])
        out_BLD = torch.stack(outputs, dim=1).to(x_BLD.dtype)
        return self.states(out_BLD), torch.stack(contexts, dim=1), state


class Bridge(nn.Module):
    """The initial states of the decoder's layers, from the last state of the encoder: W summary + b each."""

    def __init__(self, d_summary: int, d_model: int, n_layers: int) -> None:
        super().__init__()
        self.n_layers = n_layers
        self.starts = Linear(d_summary, n_layers * d_model)

    def forward(self, summary_BS: Tensor) -> tuple[Tensor, ...]:
        return self.starts(summary_BS).chunk(self.n_layers, dim=-1)  # type: ignore[no-any-return]


class DeepOutput(nn.Module):
    """tanh(W [state; context; last token] + b): the output depends directly on the context and the last token."""

    def __init__(self, d_model: int, d_context: int) -> None:
        super().__init__()
        self.mix = Linear(d_model + d_context + d_model, d_model)

    def forward(self, out_BLD: Tensor, context_BLS: Tensor | None, token_BLD: Tensor) -> Tensor:
        inputs = (out_BLD, token_BLD) if context_BLS is None else (out_BLD, context_BLS, token_BLD)
        return torch.tanh(self.mix(torch.cat(inputs, dim=-1)))


class RecurrentModel(TranslationModel):
    """ids to logits. `encode` and `decode` are its halves; `begin` and `step` decode token by token."""

    def __init__(self, config: RecurrentConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype: torch.dtype | None = None
        self.tgt_embedding, self.src_embedding, self.output = build_embeddings(
            config.tie_embeddings, config.src_vocab_size, config.tgt_vocab_size, config.d_model
        )
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        size = config.d_model
        for number in range(config.n_encoder_layers):
            bidirectional = config.bidirectional == "all" or (config.bidirectional == "first" and number == 0)
            self.encoder.append(RecurrentLayer(config.cell, size, config.d_model, bidirectional))
            size = config.d_model * (2 if bidirectional else 1)
        self.bridge = Bridge(size, config.d_model, config.n_decoder_layers)
        for number in range(config.n_decoder_layers):
            self.decoder.append(DecoderLayer(config, size, bottom=number == 0))
        self.deep_output: DeepOutput | None = None
        if config.deep_output:
            self.deep_output = DeepOutput(config.d_model, 0 if config.attention == "none" else size)
        self.dropout = Dropout(config.dropout)
        self.src_embedded, self.tgt_embedded, self.memory, self.summary, self.logits = (Tap() for _ in range(5))
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Xavier for the matrices, gate by gate; orthogonal for the recurrent ones; LSTM's forget gate has bias 1."""
        d_model = self.config.d_model
        for module in self.modules():
            match module:
                case Linear():
                    nn.init.xavier_uniform_(module.weight)
                    if module.bias is not None:
                        nn.init.zeros_(module.bias)
                case Embedding():
                    nn.init.normal_(module.weight, std=d_model**-0.5)
                    with torch.no_grad():
                        module.weight[PAD].zero_()
                case AdditiveAttention():
                    nn.init.normal_(module.v, std=d_model**-0.5)
        for module in self.modules():
            match module:
                case Recurrence():
                    for gate in range(module.n_gates):
                        rows = slice(gate * d_model, (gate + 1) * d_model)
                        nn.init.xavier_uniform_(module.inputs.weight.detach()[rows])
                        nn.init.orthogonal_(module.recurrent.weight.detach()[rows])
                    if module.kind == "lstm":
                        nn.init.ones_(module.inputs.bias.detach()[d_model : 2 * d_model])

    @property
    def longest_target(self) -> int | None:
        """No limit: a recurrence has no positions."""
        return None

    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each target position."""
        return self.project(self.hidden(src_BM, tgt_BL))

    def hidden(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """hidden_BLD, the input of the projection to the vocabulary."""
        return self.decode(tgt_BL, self.begin(src_BM))

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(self.output.project(hidden_BLD))  # type: ignore[no-any-return]

    def embed(self, embedding: Embedding, ids_BL: Tensor) -> Tensor:
        x_BLD = embedding(ids_BL)
        return self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype))  # type: ignore[no-any-return]

    def add_residual(self, number: int, x_BLD: Tensor, out_BLD: Tensor) -> Tensor:
        """The input of the next layer: a layer's output and, with residual connections, its input."""
        out_BLD = self.dropout(out_BLD)
        return x_BLD + out_BLD if self.config.residual and number >= RESIDUAL_FROM else out_BLD

    def encode(self, src_BM: Tensor) -> tuple[Tensor, Tensor]:
        """memory_BMS: a vector per source token; summary_BS: one per sentence, the last state of the top layer."""
        x_BMS = self.src_embedded(self.embed(self.src_embedding, src_BM))
        lengths_B = (src_BM != PAD).sum(dim=1)
        last_BS = x_BMS
        for number, layer in enumerate(self.encoder):
            out_BMS, last_BS = layer(x_BMS, lengths_B)
            x_BMS = self.add_residual(number, x_BMS, out_BMS)
        return self.memory(x_BMS), self.summary(last_BS)

    def begin(self, src_BM: Tensor, max_length: int = 0) -> RecurrentState:
        """Encode; one row per sentence. The state does not grow, so `max_length` has no effect."""
        memory_BMS, summary_BS = self.encode(src_BM)
        bottom: DecoderLayer = self.decoder[0]  # type: ignore[assignment]
        memory = None if bottom.cross is None else bottom.cross.prepare(memory_BMS, padding_mask(src_BM, PAD))
        starts = zip(self.decoder, self.bridge(summary_BS), strict=True)
        return RecurrentState([layer.recurrence.start(x_BD) for layer, x_BD in starts], memory)  # type: ignore[union-attr, operator]

    def decode(self, tgt_BL: Tensor, state: RecurrentState) -> Tensor:
        """hidden_BLD at every target position, starting from `state`, which is advanced to the last of them."""
        token_BLD = x_BLD = self.tgt_embedded(self.embed(self.tgt_embedding, tgt_BL))
        context_BLS: Tensor | None = None
        for number, layer in enumerate(self.decoder):
            if number == 0 and state.memory is not None:
                out_BLD, context_BLS, state.layers[0] = layer.attend_and_run(x_BLD, state.memory, state.layers[0])  # type: ignore[operator]
            else:
                out_BLD, state.layers[number] = layer(x_BLD, context_BLS, state.layers[number])
            x_BLD = self.add_residual(number, x_BLD, out_BLD)
        return x_BLD if self.deep_output is None else self.deep_output(x_BLD, context_BLS, token_BLD)  # type: ignore[no-any-return]

    def step(self, tokens_R: Tensor, state: RecurrentState) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        return self.project(self.decode(tokens_R[:, None], state))[:, 0]


class RecurrentState:
    """The state of a search: each row is a hypothesis, and several may belong to one sentence."""

    def __init__(self, layers: list[State], memory: Memory | None) -> None:
        self.layers, self.memory = layers, memory
        h_BD = layers[0][0]
        self.sentence_R = torch.arange(len(h_BD), device=h_BD.device)

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order. The memory is not copied if every row stays in its sentence."""
        self.layers = [tuple(part.index_select(0, rows_R) for part in state) for state in self.layers]
        sentence_R = self.sentence_R.index_select(0, rows_R)
        if self.memory is not None and not torch.equal(sentence_R, self.sentence_R):
            self.memory = self.memory.select(rows_R)
        self.sentence_R = sentence_R
