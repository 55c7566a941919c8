"""Quotation marks: unpaired and superfluous ones are removed from a translation."""

from __future__ import annotations

from collections.abc import Sequence

from regard.text.literals import find_literals
from regard.text.patterns import lazy_pattern
from regard.text.sentences import space_between

_OPENING, _CLOSING = "“「『«《〈", "”」』»》〉"
_PARTNER = dict(zip(_CLOSING, _OPENING, strict=True))
_QUOTES = lazy_pattern(f'["{_OPENING}{_CLOSING}]')
_SINGLE_QUOTES = lazy_pattern(r"(?<!\w)['‘](?=\w)|(?<=[\w.,!?])['’](?!\w)")  # 'so', but not isn't


def repair_quotes(source: str, translation: str) -> str:
    """Remove unpaired marks, unless the source has as many; remove all if there are far more than in the source."""
    if not _QUOTES.search(translation):
        return translation
    unpaired = _unpaired(translation)
    if len(unpaired) > len(_unpaired(source)):
        translation = _remove_characters(translation, unpaired)
    # Single marks count too: Chinese translates them to double ones.
    places = [at for at, _ in _quotes(translation)]
    if len(places) > max(2, 2 * (len(_quotes(source)) + len(_SINGLE_QUOTES.findall(source)))):
        translation = _remove_characters(translation, places)
    return translation


def _quotes(text: str) -> list[tuple[int, str]]:
    """Position and character of each quotation mark outside code and URLs."""
    spans = find_literals(text) if _QUOTES.search(text) else []
    found: list[tuple[int, str]] = []
    at = 0
    for start, stop in [*((span.start, span.stop) for span in spans), (len(text), len(text))]:
        found += [(match.start(), match[0]) for match in _QUOTES.finditer(text, at, start)]
        at = stop
    return found


def _unpaired(text: str) -> list[int]:
    """Positions of the quotation marks without a partner."""
    opened: list[int] = []
    unpaired: list[int] = []
    is_open = False
    for at, mark in _quotes(text):
        opens = _opens(text, at, is_open) if mark == '"' else mark in _OPENING
        is_open = opens if mark == '"' else is_open
        if opens:
            opened.append(at)
        elif opened and text[opened[-1]] == _PARTNER.get(mark, mark):
            opened.pop()
        else:
            unpaired.append(at)
    return sorted([*unpaired, *opened])


def _opens(text: str, at: int, is_open: bool) -> bool:
    """Whether a straight mark opens a quotation: by the white space around it, else by the mark before it."""
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if not after.strip() and before.strip():
        return False
    if not before.strip() and after.strip():
        return True
    return not is_open


def _remove_characters(text: str, places: Sequence[int]) -> str:
    for at in reversed(places):
        before, after = text[:at], text[at + 1 :]
        text = before + space_between(before, after) + after
    return " ".join(text.split())
