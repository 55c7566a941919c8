"""Text generation with a language model: one token after the other, sampled as in sampling.py.

The prompt is read once; every further step reads one token and takes the keys and values of the others from the
model's state. When a model with a limited context is full, the older half is dropped and the recent half read again
from the first position: that step is slow, but the text may grow without limit. The state of a model without a limit is
enlarged when it is full, which reads the whole text again.

The model is in the engine (engine_texts.py), or in PyTorch (model_texts.py).

Shapes: R rows = texts being generated, V vocabulary, T tokens so far with the prompt, L tokens in the context.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from regard.decode.checks import check_sampling_options
from regard.decode.random_numbers import uniform_numbers
from regard.errors import ConfigError, RegardError
from regard.tokenizers.protocol import Tokenizer

ENDED = -1  # in place of a token: the text of this row has ended before
INITIAL_ROOM = 4096  # tokens that the state of a model without a limit has room for at first

Tokens = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose the next token. `top_k` = 1 is greedy; `top_k` = 0 and `top_p` = 1 turn them off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0  # no n-gram of this size twice; 0: off


@dataclass(frozen=True)
class Choice:
    """What the next tokens are chosen by, apart from their logits."""

    options: SamplingOptions
    ids_RT: Tokens
    uniform_R: Numbers
    size: int  # only ids below are tokens: some models have more rows
    suppressed: tuple[int, ...]
    end: int  # chosen where every token is blocked


class TextModel(Protocol):
    """A language model that generates. A state is whatever it stores of the texts so far; logits are its own too."""

    @property
    def longest_text(self) -> int | None:
        """The context length, in tokens; None: no limit."""

    def read(self, ids_RT: Tokens, room: int) -> tuple[Any, Any]:
        """Read the beginnings of texts: a state with room for `room` tokens per row, and logits_RV of the next."""

    def step(self, tokens_R: Tokens, state: Any) -> Any:
        """Feed one token per row; logits_RV of the next."""

    def choose(self, logits_RV: Any, choice: Choice) -> tuple[Tokens, Numbers]:
        """The next tokens and the model's own log-probabilities of them."""

    def score(self, ids: Sequence[int]) -> Numbers:
        """The log-probability of each token of a text but the first, given those before it."""


def generate(
    model: TextModel,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    options: SamplingOptions,
    *,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tokens, Numbers]]:
    """Per step: tokens_R and their log-probabilities, one row per seed; ENDED after the end of a text.

    A row depends on its own seed only. The log-probabilities are the model's own, before temperature, top-k and top-p.
    """
    check_sampling_options(options.temperature, options.top_k, options.top_p, len(seeds))
    if max_tokens < 1:
        raise ConfigError(f"max_tokens = {max_tokens} is too small; the least is 1")
    return sample_texts(model, tokenizer, prompt, options, max_tokens, seeds)


def sample_texts(
    model: TextModel,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    options: SamplingOptions,
    max_tokens: int,
    seeds: Sequence[int],
) -> Iterator[tuple[Tokens, Numbers]]:
    ids_RT = np.tile(np.array(prompt, np.int64), (len(seeds), 1))
    ended_R = np.zeros(len(seeds), bool)
    window = Window(model, tokenizer, len(prompt) + max_tokens)
    fixed = (tokenizer.size, tuple(tokenizer.suppressed_ids), tokenizer.end)
    for position in range(max_tokens):
        uniform_R = np.array([uniform_numbers(seed, 0, position) for seed in seeds])
        logits_RV = window.next_logits(ids_RT)
        tokens_R, log_probs_R = model.choose(logits_RV, Choice(options, ids_RT, uniform_R, *fixed))
        tokens_R[ended_R] = tokenizer.end
        yield np.where(ended_R, ENDED, tokens_R), log_probs_R
        ended_R |= tokens_R == tokenizer.end
        if ended_R.all():
            return
        ids_RT = np.concatenate([ids_RT, tokens_R[:, None]], axis=1)


class Window:
    """The part of the text in the model's context, and the model's state for it."""

    def __init__(self, model: TextModel, tokenizer: Tokenizer, length: int) -> None:
        """`length`: the maximum length of the text."""
        self.model, self.tokenizer, self.length = model, tokenizer, length
        self.room = min(length, model.longest_text or INITIAL_ROOM)
        self.filled = 0
        self.state: Any = None

    def next_logits(self, ids_RT: Tokens) -> Any:
        """logits_RV of the token after `ids_RT`, which has one token more than at the last call."""
        if self.state is not None and self.filled < self.room:
            self.filled += 1
            return self.model.step(ids_RT[:, -1], self.state)
        length = ids_RT.shape[1]
        if length > self.room and self.model.longest_text is None:  # enlarge, and read the whole text again
            self.room = min(2 * length, self.length)
        context_RL = ids_RT if length <= self.room else self.recent_half(ids_RT)
        self.filled = context_RL.shape[1]
        self.state, logits_RV = self.model.read(context_RL, self.room)
        return logits_RV

    def recent_half(self, ids_RT: Tokens) -> Tokens:
        """The most recent tokens, half of the room, after BOS where the text began with it."""
        half = max(self.room // 2, 1)
        first = [ids_RT[:, :1]] if half > 1 and bool((ids_RT[:, 0] == self.tokenizer.begin).all()) else []
        return np.concatenate([*first, ids_RT[:, ids_RT.shape[1] - half + len(first) :]], axis=1)


def corrupt(token: int) -> RegardError:
    return RegardError(f"the model produced NaN or infinity at token {token}: its weights are corrupt")


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
