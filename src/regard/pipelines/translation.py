"""What a translator gives: a translation, its alternatives, and which word goes with which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from regard.errors import ConfigError
from regard.text.sentences import join_sentences


@dataclass(frozen=True)
class Alternative:
    """One translation with the model's opinion of it."""

    text: str
    score: float  # log-probability, normalised by length: comparable between alternatives
    log_prob: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # one per token, and one for the end of the sentence
    parts: tuple[tuple[str, str], ...] = ()  # (source, translation): several where a long text was cut


NOTHING = Alternative("", 0.0, 0.0, (), ())


@dataclass(frozen=True)
class Translation:
    source: str
    alternatives: tuple[Alternative, ...]  # best first
    src_lang: str = ""
    tgt_lang: str = ""  # empty where the text was left as it is
    note: str = ""  # what a person should know of it: why something was left as it is

    @property
    def text(self) -> str:
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        return self.alternatives[0].score

    def __str__(self) -> str:
        return self.text


class TranslatorBase(ABC):
    """Who translates lists of texts translates one, too."""

    @overload
    def __call__(self, text: str, **options: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **options: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **options: Any) -> str | list[str]:
        """The translation of a text, or of each of several. Options as in `translate`."""
        if isinstance(text, str):
            return self.translate([text], **options)[0].text
        return [translation.text for translation in self.translate(text, **options)]

    @abstractmethod
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]: ...


def check_pairs(sources: Sequence[str], translations: Sequence[str]) -> None:
    """Raise unless these are lists of one length; of a bare text, the letters would be taken for texts."""
    if isinstance(sources, str) or isinstance(translations, str):
        raise ConfigError("score() takes a list of sources and a list of translations; for a single pair, lists of one")
    if len(sources) != len(translations):
        raise ConfigError(f"{len(sources)} sources but {len(translations)} translations: one each is needed")


def check_n_best(n_best: int) -> None:
    if n_best < 1:
        raise ConfigError(f"n_best = {n_best} is too few; the least is 1")


class Link(NamedTuple):
    """A source word and the target word that looked at it, by their numbers (from 0) and as text."""

    src: int
    tgt: int
    src_word: str
    tgt_word: str


def join_alternatives(parts: Sequence[Alternative], lang: str) -> Alternative:
    """The translations of the parts of a text as one of the whole."""
    if not parts:
        return NOTHING
    return Alternative(
        join_sentences([part.text for part in parts], lang),
        sum(part.score for part in parts) / len(parts),
        sum(part.log_prob for part in parts),
        tuple(token for part in parts for token in part.tokens),
        tuple(value for part in parts for value in part.token_log_probs),
        tuple(pair for part in parts for pair in part.parts),
    )


def as_it_is(source: str, text: str, note: str = "") -> Translation:
    """A text that was not translated."""
    return Translation(source, (Alternative(text, 0.0, 0.0, (), ()),), note=note)


def count_texts(parts: Sequence[Sequence[object]], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """Hears which parts are finished, and tells `done` how many texts are."""
    owner = [text for text, group in enumerate(parts) for _ in group]
    waiting = [len(group) for group in parts]
    done(waiting.count(0))

    def hear(finished: Sequence[int]) -> None:
        for part in finished:
            waiting[owner[part]] -= 1
        done(len({owner[part] for part in finished if not waiting[owner[part]]}))

    return hear
