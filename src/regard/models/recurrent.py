"""The recurrent encoder–decoder: how sentences were translated before the Transformer.

Without attention (Sutskever et al. 2014) the encoder's last state, one vector, is all that the decoder knows of the
sentence: it starts from it. With attention (Bahdanau et al. 2015) the decoder's bottom layer, before each step, looks
at all of the encoder's states with its own state, and what it sees goes into the step. Several layers are GNMT's (Wu
et al. 2016): the same context goes into all layers of the decoder, and from the third layer on a layer adds to what
it was given instead of replacing it. Since only the bottom layer looks, it runs through the whole target first, and
each layer above takes its inputs from all places at once.

Deviations. From Sutskever: the vector passes a linear map for each decoder layer, the source is not reversed. From
Bahdanau: embeddings and states are of one size; the decoder starts from both directions' last states, not the
backward one's alone; the deep output has one tanh instead of maxout. From Luong, for `dot`: only the score is his,
the rest is Bahdanau's, so that the two can be compared. From GNMT: the decoder's layers start as above; states are
not clipped, nothing is quantised.

Shapes: B batch, L target length, M source length, D model, S source vectors (D, or 2 D from both ends), G gates times
D, V vocabulary, R rows of a search.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from regard.config import RecurrentConfig
from regard.core.accumulated_matmul import Repeated
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
    """A recurrence over the target whose inputs are x_BLD from below and, with attention, the context of each step."""

    def __init__(self, config: RecurrentConfig, d_memory: int, bottom: bool) -> None:
        super().__init__()
        self.recurrence = Recurrence(config.cell, config.d_model, config.d_model)
        self.cross = build_recurrent_attention(config, d_memory) if bottom else None
        self.context: Linear | None = None
        if config.attention != "none":
            self.context = Linear(d_memory, self.recurrence.n_gates * config.d_model, bias=False)
        self.states = Tap()

    def forward(self, x_BLD: Tensor, context_BLS: Tensor | None, state: State) -> tuple[Tensor, State]:
        """out_BLD and the last state, given what the bottom layer saw (nothing without attention)."""
        from_input_BLG = self.recurrence.inputs(x_BLD)
        if self.context is not None:
            from_input_BLG = from_input_BLG + self.context(context_BLS)
        out_BLD, state = self.recurrence.run(from_input_BLG, state)
        return self.states(out_BLD), state

    def look_and_run(self, x_BLD: Tensor, memory: Memory, state: State) -> tuple[Tensor, Tensor, State]:
        """The bottom layer: out_BLD, the context_BLS of each step, the last state."""
        assert self.cross is not None
        assert self.context is not None
        from_input_BLG = self.recurrence.inputs(x_BLD)
        transition, look = self.recurrence.transition(x_BLD.dtype), self.cross.look(memory)
        from_context = Repeated(self.context.weight.to(x_BLD.dtype).T)
        shown, contexts = [], []
        for from_input_BG in from_input_BLG.unbind(1):
            context_BS = look(state[0])
            state = self.recurrence.step(from_input_BG + from_context(context_BS), state, transition)
            contexts.append(context_BS)
            shown.append(state[0])
        out_BLD = torch.stack(shown, dim=1).to(x_BLD.dtype)
        return self.states(out_BLD), torch.stack(contexts, dim=1), state


class Bridge(nn.Module):
    """From the encoder to the decoder: the states of the decoder's layers before the first step, W summary + b each."""

    def __init__(self, d_summary: int, d_model: int, n_layers: int) -> None:
        super().__init__()
        self.n_layers = n_layers
        self.starts = Linear(d_summary, n_layers * d_model)

    def forward(self, summary_BS: Tensor) -> tuple[Tensor, ...]:
        return self.starts(summary_BS).chunk(self.n_layers, dim=-1)  # type: ignore[no-any-return]


class DeepOutput(nn.Module):
    """tanh(W [state; context; word] + b): the context and the word before need not be kept in the state to be used."""

    def __init__(self, d_model: int, d_context: int) -> None:
        super().__init__()
        self.mix = Linear(d_model + d_context + d_model, d_model)

    def forward(self, out_BLD: Tensor, context_BLS: Tensor | None, word_BLD: Tensor) -> Tensor:
        seen = (out_BLD, word_BLD) if context_BLS is None else (out_BLD, context_BLS, word_BLD)
        return torch.tanh(self.mix(torch.cat(seen, dim=-1)))


class RecurrentModel(TranslationModel):
    """ids to logits. `encode` and `decode` are its halves; `begin` and `step` let a search go word by word."""

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
            both_ways = config.bidirectional == "all" or (config.bidirectional == "first" and number == 0)
            self.encoder.append(RecurrentLayer(config.cell, size, config.d_model, both_ways))
            size = config.d_model * (2 if both_ways else 1)
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
        """Xavier for the matrices, gate by gate; orthogonal from state to state; LSTM forgets little at first."""
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
        """What stands before the projection on the vocabulary: hidden_BLD."""
        return self.decode(tgt_BL, self.begin(src_BM))

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(self.output.project(hidden_BLD))  # type: ignore[no-any-return]

    def embed(self, embedding: Embedding, ids_BL: Tensor) -> Tensor:
        x_BLD = embedding(ids_BL)
        return self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype))  # type: ignore[no-any-return]

    def pass_on(self, number: int, x_BLD: Tensor, out_BLD: Tensor) -> Tensor:
        """What a layer gives to the next: what it made, on top of what it was given where there are residuals."""
        out_BLD = self.dropout(out_BLD)
        return x_BLD + out_BLD if self.config.residual and number >= RESIDUAL_FROM else out_BLD

    def encode(self, src_BM: Tensor) -> tuple[Tensor, Tensor]:
        """memory_BMS: a vector for each source token; summary_BS: one for the sentence, the top layer's last state."""
        x_BMS = self.src_embedded(self.embed(self.src_embedding, src_BM))
        lengths_B = (src_BM != PAD).sum(dim=1)
        last_BS = x_BMS
        for number, layer in enumerate(self.encoder):
            out_BMS, last_BS = layer(x_BMS, lengths_B)
            x_BMS = self.pass_on(number, x_BMS, out_BMS)
        return self.memory(x_BMS), self.summary(last_BS)

    def begin(self, src_BM: Tensor, max_length: int = 0) -> RecurrentState:
        """Encode; one row a sentence. The state does not grow, so that any length has room."""
        memory_BMS, summary_BS = self.encode(src_BM)
        bottom: DecoderLayer = self.decoder[0]  # type: ignore[assignment]
        memory = None if bottom.cross is None else bottom.cross.read(memory_BMS, padding_mask(src_BM, PAD))
        starts = zip(self.decoder, self.bridge(summary_BS), strict=True)
        return RecurrentState([layer.recurrence.start(x_BD) for layer, x_BD in starts], memory)  # type: ignore[union-attr, operator]

    def decode(self, tgt_BL: Tensor, state: RecurrentState) -> Tensor:
        """hidden_BLD at every target position, from where `state` stands, which then stands after the last of them."""
        word_BLD = x_BLD = self.tgt_embedded(self.embed(self.tgt_embedding, tgt_BL))
        context_BLS: Tensor | None = None
        for number, layer in enumerate(self.decoder):
            if number == 0 and state.memory is not None:
                out_BLD, context_BLS, state.layers[0] = layer.look_and_run(x_BLD, state.memory, state.layers[0])  # type: ignore[operator]
            else:
                out_BLD, state.layers[number] = layer(x_BLD, context_BLS, state.layers[number])
            x_BLD = self.pass_on(number, x_BLD, out_BLD)
        return x_BLD if self.deep_output is None else self.deep_output(x_BLD, context_BLS, word_BLD)  # type: ignore[no-any-return]

    def step(self, tokens_R: Tensor, state: RecurrentState) -> Tensor:
        """Feed one token a row; logits_RV of the next."""
        return self.project(self.decode(tokens_R[:, None], state))[:, 0]


class RecurrentState:
    """Where a search stands: each row a hypothesis, several of which may share a sentence."""

    def __init__(self, layers: list[State], memory: Memory | None) -> None:
        self.layers, self.memory = layers, memory
        h_BD = layers[0][0]
        self.sentence_R = torch.arange(len(h_BD), device=h_BD.device)

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order. Beams that change places within a sentence leave its memory alone."""
        self.layers = [tuple(part.index_select(0, rows_R) for part in state) for state in self.layers]
        sentence_R = self.sentence_R.index_select(0, rows_R)
        if self.memory is not None and not torch.equal(sentence_R, self.sentence_R):
            self.memory = self.memory.select(rows_R)
        self.sentence_R = sentence_R
