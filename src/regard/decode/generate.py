"""Going on with a text: token after token from a language model, each drawn as in sampling.py.

The prompt is read once; after it every step reads one token and finds the keys and values of the others in the
model's state. A model that sees only so many tokens at once forgets the older half when they are full, and reads the
younger half again from the first position: that one step is long, and the text may grow without end. One without such
a limit is given more room when it needs it, and then reads all again.

Shapes: R rows = texts being written, V vocabulary, T tokens so far with the prompt, L tokens that the model sees.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decode.constraints import block_repeats
from regard.decode.sampling import check_options, draw_tokens, uniforms
from regard.errors import ConfigError, RegardError
from regard.models.language_model import LanguageModel
from regard.tokenizers.protocol import Tokenizer

ENDED = -1  # in the place of a token: the text of this row had ended before
FIRST_ROOM = 4096  # tokens that a model without a limit is given room for, until it has written as many


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose the next token. `top_k` = 1 is greedy; 0 and `top_p` = 1 cut nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0  # no n-gram of this size twice; 0: off


def generate(
    model: LanguageModel,
    lexicon: Tokenizer,
    prompt: Sequence[int],
    how: SamplingOptions,
    *,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tensor, Tensor]]:
    """Step by step: tokens_R and their log-probabilities, a row for each seed; ENDED after the end of a text.

    A row depends on its own seed alone. The log-probabilities are the model's own, before temperature and cuts.
    """
    check_options(how.temperature, how.top_k, how.top_p, len(seeds))
    if max_tokens < 1:
        raise ConfigError(f"max_tokens = {max_tokens} leaves nothing to write; the least is 1")
    return draw_texts(model, lexicon, prompt, how, max_tokens, seeds)


@torch.inference_mode()
def draw_texts(
    model: LanguageModel,
    lexicon: Tokenizer,
    prompt: Sequence[int],
    how: SamplingOptions,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tensor, Tensor]]:
    device = model.output.weight.device
    ids_RT = torch.tensor([list(prompt)], device=device).repeat(len(seeds), 1)
    ended_R = torch.zeros(len(seeds), dtype=torch.bool, device=device)
    window = Window(model, lexicon, len(prompt) + max_tokens)
    for _, uniform_R in zip(range(max_tokens), uniforms(seeds), strict=False):
        log_probs_RV = log_probabilities(window.next_logits(ids_RT), ids_RT.shape[1])
        allowed_RV = log_probs_RV.clone()
        allowed_RV[:, list(lexicon.never)] = -torch.inf
        allowed_RV[:, lexicon.size :] = -torch.inf  # some models have more rows than tokens
        if how.no_repeat_ngram:
            block_repeats(allowed_RV, ids_RT, how.no_repeat_ngram)
            allowed_RV[allowed_RV.amax(dim=1) == -torch.inf, lexicon.end] = 0.0  # nothing is left to say
        tokens_R = draw_tokens(allowed_RV, uniform_R.to(device), how.temperature, how.top_k, how.top_p)
        tokens_R = torch.where(ended_R, lexicon.end, tokens_R)
        chosen_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0]
        yield torch.where(ended_R, ENDED, tokens_R), chosen_R
        ended_R = ended_R | (tokens_R == lexicon.end)
        if ended_R.all():
            return
        ids_RT = torch.cat([ids_RT, tokens_R[:, None]], dim=1)


class Window:
    """What the model sees of the text at once, and what it remembers of it."""

    def __init__(self, model: LanguageModel, lexicon: Tokenizer, length: int) -> None:
        """`length`: the most that the text may come to."""
        self.model, self.lexicon, self.length = model, lexicon, length
        self.room = min(length, model.longest_text or FIRST_ROOM)
        self.filled = 0
        self.state: object = None

    def next_logits(self, ids_RT: Tensor) -> Tensor:
        """logits_RV of the token after `ids_RT`, which has one token more than at the last call."""
        if self.state is not None and self.filled < self.room:
            self.filled += 1
            return self.model.step(ids_RT[:, -1], self.state)
        length = ids_RT.shape[1]
        if length > self.room and self.model.longest_text is None:  # nothing is forgotten: read all of it again
            self.room = min(2 * length, self.length)
        seen_RL = ids_RT if length <= self.room else self.younger(ids_RT)
        self.state = self.model.begin(len(ids_RT), self.room)
        self.filled = seen_RL.shape[1]
        return self.model.project(self.model.read(seen_RL, self.state)[:, -1:])[:, 0]

    def younger(self, ids_RT: Tensor) -> Tensor:
        """The younger half of what there is room for, after the sign of a beginning where the text began with one."""
        half = max(self.room // 2, 1)
        first = [ids_RT[:, :1]] if half > 1 and bool((ids_RT[:, 0] == self.lexicon.begin).all()) else []
        return torch.cat([*first, ids_RT[:, ids_RT.shape[1] - half + len(first) :]], dim=1)


def log_probabilities(logits_RV: Tensor, length: int) -> Tensor:
    wide = torch.promote_types(logits_RV.dtype, torch.float32)
    log_probs_RV = torch.log_softmax(logits_RV, dim=1, dtype=wide)
    if log_probs_RV[:, 0].isnan().any():
        raise RegardError(
            f"the model gave something that is not a number for token {length + 1}: its weights are damaged"
        )
    return log_probs_RV


def spell_out(tokens: Iterable[int], lexicon: Tokenizer, begins: bool = False) -> Iterator[str]:
    """The text of tokens as they come, in parts that are whole characters.

    `begins`: there is no text before them, so that a space in front would be one too many.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        part = decoder.decode(lexicon.token_bytes(token))
        if begins and part:
            part, begins = part.removeprefix(" "), False
        if part:
            yield part
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest
