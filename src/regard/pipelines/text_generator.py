"""`TextGenerator`: text generation with a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import config as settings
from regard.config import DecodeConfig, FamilyConfig, LanguageConfig, Precision, wrong_family
from regard.decode.engine_texts import EngineTexts
from regard.decode.generate import ENDED, SamplingOptions, TextModel, decode_stream, generate
from regard.decode.random_numbers import spread_seed
from regard.errors import ConfigError
from regard.extras import require
from regard.model_folder.folder import read_description
from regard.model_folder.registry import find_folder
from regard.pipelines.text_backend import TextBackend
from regard.tokenizers.read import text_tokenizer

if TYPE_CHECKING:
    from regard.inspect.text_trace import TextTrace
    from regard.models.language_model import LanguageModel

MAX_TOKENS = 200
OPTIONS = ("temperature", "top_k", "top_p", "seed", "no_repeat_ngram")


@dataclass(frozen=True)
class Continuation:
    """The text generated for a prompt."""

    text: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # one per token, and one for the end token if it was generated
    finished: bool  # ended by the end token, not by the limit of tokens

    @property
    def log_prob(self) -> float:
        return sum(self.token_log_probs)


class TextGenerator:
    """Generate text with a language model.

    Parameters
    ----------
    folder : str or Path
        A model folder, or the name of an installed model.
    precision : {"float32", "bfloat16", "int8", "auto"}
        Precision of the engine. "float32" is exact, "auto" the fastest on this machine.

    Examples
    --------
    >>> from regard import TextGenerator
    >>> generate = TextGenerator("runs/gpt-shakespeare/model")
    >>> print(generate("ROMEO:", max_tokens=100, temperature=0.8))
    >>> for part in generate.stream("ROMEO:"):
    ...     print(part, end="")
    """

    def __init__(self, folder: str | Path, precision: Precision = "float32") -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        if not isinstance(description.model, LanguageConfig):
            raise wrong_family(description.model, "generate text")
        self.folder, self.config = folder, description.model
        self.decode = description.decode
        self.backend: TextBackend[LanguageModel] = TextBackend(folder, description, precision, read_live)
        self.tokenizer = text_tokenizer(folder, description)

    @property
    def model(self) -> LanguageModel:
        """The model in PyTorch."""
        return self.backend.model

    @property
    def texts(self) -> TextModel:
        """What generates: the engine, or the model in PyTorch."""
        engine = self.backend.usable_engine
        if engine is not None:
            return EngineTexts(engine)
        from regard.decode.model_texts import ModelTexts

        return ModelTexts(self.model)

    def __call__(self, prompt: str = "", **options: Any) -> str:
        """The prompt and its continuation. Options as in `stream`."""
        return prompt + "".join(self.stream(prompt, **options))

    def stream(self, prompt: str = "", *, max_tokens: int = MAX_TOKENS, **options: Any) -> Iterator[str]:
        """Generate a continuation of the prompt, part by part; each part consists of whole characters.

        Parameters
        ----------
        prompt : str
        max_tokens : int
            Maximum number of tokens to generate.
        **options
            temperature=0.8, top_k=40, top_p=0.95, seed=1, no_repeat_ngram=3; defaults are the settings of the model.
        """
        config = self.decode_config(options)
        steps = generate(
            self.texts,
            self.tokenizer,
            self.tokenizer.prompt(prompt),
            sampling_options(config),
            max_tokens=max_tokens,
            seeds=spread_seed(config.seed, [0]),
        )
        return decode_stream((int(tokens_R[0]) for tokens_R, _ in steps), self.tokenizer, begins=not prompt)

    def generate(
        self, prompt: str = "", *, n: int = 1, max_tokens: int = MAX_TOKENS, **options: Any
    ) -> list[Continuation]:
        """Sample `n` independent continuations of the prompt; the first equals that of `stream`."""
        config = self.decode_config(options)
        seeds, ids = spread_seed(config.seed, range(n)), self.tokenizer.prompt(prompt)
        steps = list(
            generate(self.texts, self.tokenizer, ids, sampling_options(config), max_tokens=max_tokens, seeds=seeds)
        )
        tokens_RL = np.stack([tokens_R for tokens_R, _ in steps], axis=1).tolist()
        log_probs_RL = np.stack([log_probs_R for _, log_probs_R in steps], axis=1).tolist()
        return [self.continuation(prompt, *row) for row in zip(tokens_RL, log_probs_RL, strict=True)]

    def continuation(self, prompt: str, tokens: list[int], log_probs: list[float]) -> Continuation:
        generated = [token for token in tokens if token != ENDED]
        finished = generated[-1] == self.tokenizer.end
        text = "".join(decode_stream(generated, self.tokenizer, begins=not prompt))
        pieces = self.tokenizer.pieces(generated[:-1] if finished else generated)
        return Continuation(text, tuple(pieces), tuple(log_probs[: len(generated)]), finished)

    def score(self, text: str) -> tuple[tuple[str, ...], np.ndarray]:
        """The tokens of a text, and the log-probability of each given the previous ones."""
        ids = self.encode(text)
        return tuple(self.tokenizer.pieces(ids[1:])), self.texts.score(ids)

    def trace(self, text: str, taps: Sequence[str] = ("*",)) -> TextTrace:
        """All values that the model computes for `text`, at the chosen taps."""
        ids = self.encode(text)
        require("torch", "a trace")
        from regard.inspect.text_trace import trace_text

        return trace_text(self.model, lambda ids_1L: self.model(ids_1L), ids, self.tokenizer.pieces(ids), taps)

    def encode(self, text: str) -> list[int]:
        """The ids of a text that fits into the context."""
        ids, longest = self.tokenizer.prompt(text), self.texts.longest_text
        if longest is not None and len(ids) > longest:
            raise ConfigError(f"this text has {len(ids):,} tokens; the model takes at most {longest:,}")
        return ids

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig:
        """The decoding settings of the model, overridden by `options` and checked."""
        for name in options:
            if name not in OPTIONS:
                raise ConfigError(f"unknown option {name}; {settings.suggestion(name, OPTIONS)}")
        return settings.build(DecodeConfig, {**settings.to_dict(self.decode), **options}, "decode")


def sampling_options(config: DecodeConfig) -> SamplingOptions:
    return SamplingOptions(config.temperature, config.top_k, config.top_p, config.no_repeat_ngram)


def read_live(folder: Path, config: FamilyConfig) -> LanguageModel:
    from regard.pipelines.live_text import read_language_model

    return read_language_model(folder, config)
