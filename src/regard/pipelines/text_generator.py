"""The façade of a language model: a model folder in, texts out.

from regard import TextGenerator
write = TextGenerator("runs/gpt-shakespeare/model")
print(write("ROMEO:"))
for part in write.stream("ROMEO:"): print(part, end="")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import config as settings
from regard.config import DecodeConfig
from regard.decode.generate import ENDED, SamplingOptions, decode_stream, generate
from regard.decode.sampling import spread_seed
from regard.errors import ConfigError
from regard.inspect.text_trace import TextTrace, trace_text
from regard.model_folder.folder import read_description
from regard.model_folder.registry import find_folder
from regard.models.language_model import LanguageModel
from regard.models.load import read_model
from regard.tokenizers.protocol import read_tokenizer

MAX_TOKENS = 200
OPTIONS = ("temperature", "top_k", "top_p", "seed", "no_repeat_ngram")


@dataclass(frozen=True)
class Continuation:
    """What a model wrote after a prompt."""

    text: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # one per token, and one for the end where there is one
    finished: bool  # ended by itself, rather than cut at the most tokens

    @property
    def log_prob(self) -> float:
        return sum(self.token_log_probs)


class TextGenerator:
    """A trained language model, ready to go on with texts. Nothing here needs knowledge of torch."""

    def __init__(self, folder: str | Path) -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        self.folder = folder
        self.decode = description.decode
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, LanguageModel, "write").to(self.device)  # type: ignore[type-abstract]
        self.lexicon = read_tokenizer(description.tokenizer, description.lowercase)

    def __call__(self, prompt: str = "", **options: Any) -> str:
        """The prompt and what comes after it. Options as in `stream`."""
        return prompt + "".join(self.stream(prompt, **options))

    def stream(self, prompt: str = "", *, max_tokens: int = MAX_TOKENS, **options: Any) -> Iterator[str]:
        """What comes after the prompt, as it is written, in parts that are whole characters.

        `options`: temperature=0.8, top_k=40, top_p=0.95, seed=1, no_repeat_ngram=3. What is not given is the model's.
        """
        how = self.how(options)
        steps = generate(
            self.model,
            self.lexicon,
            self.lexicon.prompt(prompt),
            manner(how),
            max_tokens=max_tokens,
            seeds=spread_seed(how.seed, [0]),
        )
        return decode_stream((int(tokens_R[0]) for tokens_R, _ in steps), self.lexicon, begins=not prompt)

    def write(
        self, prompt: str = "", *, n: int = 1, max_tokens: int = MAX_TOKENS, **options: Any
    ) -> list[Continuation]:
        """`n` continuations of the prompt, each drawn for itself; the first is what `stream` gives."""
        how = self.how(options)
        seeds, ids = spread_seed(how.seed, range(n)), self.lexicon.prompt(prompt)
        steps = list(generate(self.model, self.lexicon, ids, manner(how), max_tokens=max_tokens, seeds=seeds))
        tokens_RL = torch.stack([tokens_R for tokens_R, _ in steps], dim=1).tolist()
        log_probs_RL = torch.stack([log_probs_R for _, log_probs_R in steps], dim=1).tolist()
        return [self.continuation(prompt, *row) for row in zip(tokens_RL, log_probs_RL, strict=True)]

    def continuation(self, prompt: str, tokens: list[int], log_probs: list[float]) -> Continuation:
        kept = [token for token in tokens if token != ENDED]
        finished = kept[-1] == self.lexicon.end
        text = "".join(decode_stream(kept, self.lexicon, begins=not prompt))
        pieces = self.lexicon.pieces(kept[:-1] if finished else kept)
        return Continuation(text, tuple(pieces), tuple(log_probs[: len(kept)]), finished)

    def score(self, text: str) -> tuple[tuple[str, ...], np.ndarray]:
        """The tokens of a text, and the log-probability of each given those before it (the first has none before)."""
        trace = self.trace(text, ("logits",))
        logits_LV = torch.from_numpy(trace["logits"])
        wanted = torch.tensor(trace.ids[1:], dtype=torch.int64)
        log_probs = torch.log_softmax(logits_LV[:-1].double(), dim=-1).gather(1, wanted[:, None])[:, 0]
        return trace.tokens[1:], log_probs.numpy()

    def trace(self, text: str, taps: Sequence[str] = ("*",)) -> TextTrace:
        """Every number on the way through `text`."""
        ids = self.lexicon.prompt(text)
        longest = self.model.longest_text
        if longest is not None and len(ids) > longest:
            raise ConfigError(f"this text has {len(ids):,} tokens; the model sees at most {longest:,} at once")
        return trace_text(self.model, lambda ids_1L: self.model(ids_1L), ids, self.lexicon.pieces(ids), taps)

    def how(self, options: dict[str, Any]) -> DecodeConfig:
        """The model's own settings with `options` in their place, checked."""
        for name in options:
            if name not in OPTIONS:
                raise ConfigError(f"unknown option {name}; {settings.suggestion(name, OPTIONS)}")
        return settings.build(DecodeConfig, {**settings.to_dict(self.decode), **options}, "decode")


def manner(how: DecodeConfig) -> SamplingOptions:
    return SamplingOptions(how.temperature, how.top_k, how.top_p, how.no_repeat_ngram)
