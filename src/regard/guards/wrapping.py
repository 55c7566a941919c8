"""Marks around a whole text: brackets, quotation marks, markers of headings and lists. They bypass the model."""

from __future__ import annotations

from regard.guards.segments import translate_punctuation
from regard.text.patterns import lazy_pattern
from regard.text.sentences import is_unspaced

_PAIRS = {
    "(": ")",
    "（": "）",
    "[": "]",
    "【": "】",
    "「": "」",
    "『": "』",
    "“": "”",
    '"': '"',
    "《": "》",
    "**": "**",
    "*": "*",
}
# All markers at once: removing one per call would recurse once for each.
_MARKERS = lazy_pattern(r"(?:(?:#{1,6}|[-*+>•]|\d{1,3}[.)])\s+|[。，、；：！？,;:!?…]+\s*(?=\w|[-#*+>•]))++(?=\S)")
_LATIN = {"（": "(", "）": ")", "「": '"', "」": '"', "『": '"', "』": '"', "“": '"', "”": '"', "《": '"', "》": '"'}
_LATIN |= {"【": "[", "】": "]"}
_OPENING = {"(": "（", '"': "“"}
_CLOSING = {")": "）", '"': "”"}


def unwrap(text: str) -> tuple[str, str, str]:
    """Split into the marks before the text, the text, and the marks after it."""
    markers = _MARKERS.match(text)
    if markers:
        return markers[0], text[markers.end() :], ""
    for opening, closing in _PAIRS.items():
        if not (text.startswith(opening) and text.endswith(closing)):
            continue
        inner = text[len(opening) : -len(closing)]
        if inner.strip() and opening not in inner and closing not in inner:
            return opening, inner, closing
    return "", text, ""


def translate_wrapping(before: str, after: str, lang: str) -> tuple[str, str]:
    """Convert the marks around a text to those of the language."""
    if is_unspaced(lang):
        return _OPENING.get(before, before), _CLOSING.get(after, after)
    return _LATIN.get(before) or translate_punctuation(before, lang), _LATIN.get(after, after)
