"""Marks around a whole text: brackets, quotation marks, the signs of headings and lists. A model need not see them."""

from __future__ import annotations

import re

from regard.guards.segments import translate_marks
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
# However many: whoever takes off one at a time goes deep.
_SIGN = re.compile(r"(?:(?:#{1,6}|[-*+>•]|\d{1,3}[.)])\s+|[。，、；：！？,;:!?…]+\s*(?=\w|[-#*+>•]))++(?=\S)")
_LATIN = {"（": "(", "）": ")", "「": '"', "」": '"', "『": '"', "』": '"', "“": '"', "”": '"', "《": '"', "》": '"'}
_LATIN |= {"【": "[", "】": "]"}
_OPENING = {"(": "（", '"': "“"}
_CLOSING = {")": "）", '"': "”"}


def unwrap(text: str) -> tuple[str, str, str]:
    """What is before the words, the words, what is after them."""
    sign = _SIGN.match(text)
    if sign:
        return sign[0], text[sign.end() :], ""
    for opening, closing in _PAIRS.items():
        inner = text[len(opening) : -len(closing)]
        wrapped = text.startswith(opening) and text.endswith(closing) and inner.strip()
        if wrapped and opening not in inner and closing not in inner:
            return opening, inner, closing
    return "", text, ""


def marks_of(before: str, after: str, lang: str) -> tuple[str, str]:
    """The marks around a text as the language writes them."""
    if is_unspaced(lang):
        return _OPENING.get(before, before), _CLOSING.get(after, after)
    return _LATIN.get(before) or translate_marks(before, lang), _LATIN.get(after, after)
