"""Loops: words or phrases that a translation repeats without reason. A frequent failure of small models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from regard.guards.words import LETTER
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS

_UNIT = lazy_pattern(rf"[{HAN_CHARACTERS}]|{LETTER}+(?:['’]{LETTER}+)*|(?P<mark>[^\w\s]|_)(?P=mark)*")
_PIECE = lazy_pattern(r"[a-z]+|\S")  # of a unit
_LONG_WORD = lazy_pattern("[A-Za-z]{26,}")  # a loop of letters
_LONGEST_PERIOD = 12  # units
_MARKS_IN_A_ROW = 12  # of one mark; more is a loop
_MANY_MARKS = lazy_pattern(rf"([^\w\s]|_)\1{{{_MARKS_IN_A_ROW}}}")
_ALWAYS_ALLOWED = 2  # times that a unit may follow itself, and a phrase may occur
_PHRASE = 4  # units of a phrase that may recur with other words between


def has_loop(source: str, translation: str) -> bool:
    """Whether words or phrases are repeated more often than in the source."""
    if any(word not in source for word in _LONG_WORD.findall(translation)):
        return True
    # In most translations nothing occurs more often than is always allowed, whatever the source has.
    if not _MANY_MARKS.search(translation) and _most_common_piece(translation) <= _ALWAYS_ALLOWED:
        return False
    units = _units(translation)
    return _repeats_too_often(units, _ALWAYS_ALLOWED) and _repeats_too_often(units, _max_repeats(source))


def _repeats_too_often(units: Sequence[re.Match[str]], allowed: int) -> bool:
    return _next_loop(units, allowed) is not None or _excess_phrase(units, allowed) is not None


def remove_loops(source: str, translation: str) -> str:
    """The translation with a single pass of each loop."""
    allowed = _max_repeats(source)
    translation = _LONG_WORD.sub(lambda match: match[0] if match[0] in source else "", translation).strip()
    while (found := _next_loop(_units(translation), allowed)) is not None:
        start, stop = found
        translation = (translation[:start] + translation[stop:]).strip()
    while (at := _excess_phrase(_units(translation), allowed)) is not None:
        translation = translation[:at].rstrip()
    return translation


def _most_common_piece(text: str) -> int:
    """At least how often the most frequent unit occurs; counted in pieces of units, which are found faster."""
    pieces = _PIECE.findall(text.lower())
    if len(pieces) - len(set(pieces)) < _ALWAYS_ALLOWED:
        return _ALWAYS_ALLOWED
    return max(Counter(pieces).values())


def _units(text: str) -> list[re.Match[str]]:
    return list(_UNIT.finditer(text))


def _max_repeats(source: str) -> int:
    """How often a unit may follow itself and a phrase may occur: as often as in the source, and at least twice."""
    units = [unit[0].lower() for unit in _units(source)]
    repeats = [_longest_repeat(units, period) for period in range(1, _LONGEST_PERIOD + 1)]
    pairs = Counter(pairwise(units))
    marks = [len(unit) for unit in units if not unit[0].isalnum()]
    return max(_ALWAYS_ALLOWED, *repeats, *pairs.values(), *(mark // 3 for mark in marks))


def _longest_repeat(units: Sequence[str], period: int) -> int:
    longest = run = 0
    for at in range(period, len(units)):
        run = run + 1 if units[at] == units[at - period] else 0
        longest = max(longest, run)
    return longest // period + 1


def _next_loop(matches: Sequence[re.Match[str]], allowed: int) -> tuple[int, int] | None:
    """The start and end of what to remove so that one pass of the first loop remains."""
    units = [match[0].lower() for match in matches]
    for match in matches:
        if match["mark"] and len(match[0]) > max(_MARKS_IN_A_ROW, 3 * allowed):
            return match.start() + 3, match.end()
    if len(units) - len(set(units)) < allowed:  # nothing occurs more often than that
        return None
    for period in range(1, _LONGEST_PERIOD + 1):
        run = 0
        for at in range(period, len(units) + 1):
            if at < len(units) and units[at] == units[at - period]:
                run += 1
                continue
            if run // period + 1 > allowed:
                first = at - run  # the first repeated unit
                return matches[first - 1].end(), matches[first + run // period * period - 1].end()
            run = 0
    return None


def _excess_phrase(matches: Sequence[re.Match[str]], allowed: int) -> int | None:
    """The position of a phrase that has occurred too often before."""
    units = [match[0].lower() for match in matches]
    if len(units) - len(set(units)) < allowed:  # nothing occurs more often than that
        return None
    seen: Counter[tuple[str, ...]] = Counter()
    for at in range(len(units) - _PHRASE + 1):
        phrase = tuple(units[at : at + _PHRASE])
        seen[phrase] += 1
        if seen[phrase] > allowed:
            return matches[at].start()
    return None
