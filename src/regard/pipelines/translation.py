"""`Translation` with its alternatives, word alignment links, and the base class of all translators."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from regard.errors import ConfigError
from regard.text.sentences import join_sentences

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Alternative:
    """One translation of a text, with its scores."""

    text: str
    score: float  # log-probability divided by the length penalty: comparable between alternatives
    log_prob: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # one per token, and one for the end-of-sentence token
    parts: tuple[tuple[str, str], ...] = ()  # (source, translation); several if a long text was split


EMPTY = Alternative("", 0.0, 0.0, (), ())


@dataclass(frozen=True)
class Translation:
    """The translation of a text. `str(translation)` is the best one."""

    source: str
    alternatives: tuple[Alternative, ...]  # best first
    src_lang: str = ""
    tgt_lang: str = ""  # of the text; empty if it was not translated
    note: str = ""  # for the user: what was not translated, and why
    failed: bool = False  # there was something to translate, and no model for it

    @property
    def text(self) -> str:
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        return self.alternatives[0].score

    def __str__(self) -> str:
        return self.text


class TranslatorBase(ABC):
    """Makes a translator of lists of texts callable, with one text or several."""

    @overload
    def __call__(self, text: str, **options: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **options: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **options: Any) -> str | list[str]:
        """Translate one text, or each of several. Options as in `translate`; of its notes, failures are logged."""
        found = self.translate([text] if isinstance(text, str) else text, **options)
        for translation in found:
            if translation.failed:
                log.warning("%r: %s", translation.source[:40], translation.note)
        return found[0].text if isinstance(text, str) else [translation.text for translation in found]

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
    """Raise unless both are lists of the same length. A string is refused: its characters would count as texts."""
    if isinstance(sources, str) or isinstance(translations, str):
        raise ConfigError(
            "score() takes a list of sources and a list of translations; for a single pair, pass lists of one element"
        )
    if len(sources) != len(translations):
        raise ConfigError(
            f"{len(sources)} sources but {len(translations)} translations; score() needs one translation per source"
        )


def check_n_best(n_best: int) -> None:
    if n_best < 1:
        raise ConfigError(f"n_best = {n_best} is too small; the minimum is 1")


class Link(NamedTuple):
    """An alignment link: a target word and the source word it attends to most, by index (from 0) and as text."""

    src: int
    tgt: int
    src_word: str
    tgt_word: str


def join_alternatives(parts: Sequence[Alternative], lang: str) -> Alternative:
    """Join the translations of the parts of a text; the score is the mean of theirs."""
    if len(parts) <= 1:
        return parts[0] if parts else EMPTY
    return Alternative(
        join_sentences([part.text for part in parts], lang),
        sum(part.score for part in parts) / len(parts),
        sum(part.log_prob for part in parts),
        tuple(token for part in parts for token in part.tokens),
        tuple(value for part in parts for value in part.token_log_probs),
        tuple(pair for part in parts for pair in part.parts),
    )


def untranslated(source: str, text: str) -> Translation:
    """The result for a text that is its own translation, such as a number."""
    return Translation(source, (Alternative(text, 0.0, 0.0, (), ()),))


def count_texts(parts: Sequence[Sequence[object]], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """A callback for finished parts, which calls `done` with the number of texts that they complete."""
    owner = [text for text, group in enumerate(parts) for _ in group]
    remaining = [len(group) for group in parts]
    done(remaining.count(0))

    def finish(finished: Sequence[int]) -> None:
        for part in finished:
            remaining[owner[part]] -= 1
        done(len({owner[part] for part in finished if not remaining[owner[part]]}))

    return finish
