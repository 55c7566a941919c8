"""Text generation with a language model: one token after the other, sampled as in sampling.py.

The prompt is read once; every further step reads one token and takes the keys and values of the others from the
model's state. When a model with a limited context is full, the older half is dropped and the recent half read again
from the first position: that step is slow, but the text may grow without limit. The state of a model without a limit is
enlarged when it is full, which reads the whole text again.

Shapes: R rows = texts being generated, V vocabulary, T tokens so far with the prompt, L tokens in the context.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decode.checks import check_sampling_options
from regard.decode.constraints import block_repeats
from regard.decode.sampling import draw_tokens, uniforms
from regard.errors import ConfigError, RegardError
from regard.models.language_model import LanguageModel
from regard.tokenizers.protocol import Tokenizer

ENDED = -1  # in place of a token: the text of this row has ended before
INITIAL_ROOM = 4096  # tokens that the state of a model without a limit has room for at first


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose the next token. `top_k` = 1 is greedy; `top_k` = 0 and `top_p` = 1 turn them off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0  # no n-gram of this size twice; 0: off


def generate(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    options: SamplingOptions,
    *,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tensor, Tensor]]:
    """Per step: tokens_R and their log-probabilities, one row per seed; ENDED after the end of a text.

    A row depends on its own seed only. The log-probabilities are the model's own, before temperature, top-k and top-p.
    """
    check_sampling_options(options.temperature, options.top_k, options.top_p, len(seeds))
    if max_tokens < 1:
        raise ConfigError(f"max_tokens = {max_tokens} is too small; the least is 1")
    return sample_texts(model, tokenizer, prompt, options, max_tokens, seeds)


@torch.inference_mode()
def sample_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    options: SamplingOptions,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tensor, Tensor]]:
    device = model.output.weight.device
    ids_RT = torch.tensor([list(prompt)], device=device).repeat(len(seeds), 1)
    ended_R = torch.zeros(len(seeds), dtype=torch.bool, device=device)
    window = Window(model, tokenizer, len(prompt) + max_tokens)
    for _, uniform_R in zip(range(max_tokens), uniforms(seeds), strict=False):
        log_probs_RV = log_probabilities(window.next_logits(ids_RT), ids_RT.shape[1])
        allowed_RV = log_probs_RV.clone()
        allowed_RV[:, list(tokenizer.suppressed_ids)] = -torch.inf
        allowed_RV[:, tokenizer.size :] = -torch.inf  # some models have more rows than tokens
        if options.no_repeat_ngram:
            block_repeats(allowed_RV, ids_RT, options.no_repeat_ngram)
            allowed_RV[allowed_RV.amax(dim=1) == -torch.inf, tokenizer.end] = 0.0  # every token is blocked
        tokens_R = draw_tokens(allowed_RV, uniform_R.to(device), options.temperature, options.top_k, options.top_p)
        tokens_R = torch.where(ended_R, tokenizer.end, tokens_R)
        chosen_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0]
        yield torch.where(ended_R, ENDED, tokens_R), chosen_R
        ended_R = ended_R | (tokens_R == tokenizer.end)
        if ended_R.all():
            return
        ids_RT = torch.cat([ids_RT, tokens_R[:, None]], dim=1)


class Window:
    """The part of the text in the model's context, and the model's state for it."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, length: int) -> None:
        """`length`: the maximum length of the text."""
        self.model, self.tokenizer, self.length = model, tokenizer, length
        self.room = min(length, model.longest_text or INITIAL_ROOM)
        self.filled = 0
        self.state: object = None

    def next_logits(self, ids_RT: Tensor) -> Tensor:
        """logits_RV of the token after `ids_RT`, which has one token more than at the last call."""
        if self.state is not None and self.filled < self.room:
            self.filled += 1
            return self.model.step(ids_RT[:, -1], self.state)
        length = ids_RT.shape[1]
        if length > self.room and self.model.longest_text is None:  # enlarge, and read the whole text again
            self.room = min(2 * length, self.length)
        context_RL = ids_RT if length <= self.room else self.recent_half(ids_RT)
        self.state = self.model.begin(len(ids_RT), self.room)
        self.filled = context_RL.shape[1]
        return self.model.project(self.model.read(context_RL, self.state)[:, -1:])[:, 0]

    def recent_half(self, ids_RT: Tensor) -> Tensor:
        """The most recent tokens, half of the room, after BOS where the text began with it."""
        half = max(self.room // 2, 1)
        first = [ids_RT[:, :1]] if half > 1 and bool((ids_RT[:, 0] == self.tokenizer.begin).all()) else []
        return torch.cat([*first, ids_RT[:, ids_RT.shape[1] - half + len(first) :]], dim=1)


def log_probabilities(logits_RV: Tensor, length: int) -> Tensor:
    wide = torch.promote_types(logits_RV.dtype, torch.float32)
    log_probs_RV = torch.log_softmax(logits_RV, dim=1, dtype=wide)
    if log_probs_RV[:, 0].isnan().any():
        raise RegardError(f"the model produced NaN or infinity at token {length + 1}: its weights are corrupt")
    return log_probs_RV


def decode_stream(tokens: Iterable[int], tokenizer: Tokenizer, begins: bool = False) -> Iterator[str]:
    """The text of tokens as they arrive, in parts that consist of whole characters.

    `begins`: no text comes before them, so that a leading space is removed.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        part = decoder.decode(tokenizer.token_bytes(token))
        if begins and part:
            part, begins = part.removeprefix(" "), False
        if part:
            yield part
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest
