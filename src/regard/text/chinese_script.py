"""Traditional and simplified Chinese characters, each made of the other by OpenCC (docs/decisions/016).

OpenCC and its dictionaries are loaded when they are first needed. Simplified text does not need them on its way in: its
characters are those of GB 2312, the mainland's first character set, which has only a few that may be traditional.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal

from regard.text.entities import HAN_CHARACTERS
from regard.text.language import has_han

if TYPE_CHECKING:
    from opencc import OpenCC

ChineseScript = Literal["simplified", "traditional"]
_HAN_RUN = re.compile(f"[{HAN_CHARACTERS}]+")
# Those of GB 2312 that OpenCC simplifies, most of them everywhere but in some words: 乾 is 干, and not in 乾坤.
_PERHAPS_TRADITIONAL = frozenset("乾吒夥後徵拚捱摺於榘菸薹袷醣麴麽")
_TRADITIONAL_TAGS = frozenset(["hant", "tw", "hk", "mo"])


def simplify(text: str) -> str:
    """The same in simplified characters; what is not Chinese stays as it is."""
    if all(map(is_plain, _HAN_RUN.findall(text))):
        return text
    converted: str = _converter("t2s").convert(text)
    return converted


def traditionalise(text: str) -> str:
    """The same in traditional characters, with the forms that are standard in Taiwan."""
    if not has_han(text):
        return text
    converted: str = _converter("s2tw").convert(text)
    return converted


def script_of(tag: str) -> ChineseScript | None:
    """The script that a language tag asks for: traditional, or none in particular."""
    language, *rest = re.split("[-_]", tag.lower())
    traditional = language == "zh" and "hans" not in rest and not _TRADITIONAL_TAGS.isdisjoint(rest)
    return "traditional" if traditional else None


def is_plain(text: str) -> bool:
    """Whether all of it is in GB 2312, and certainly not traditional."""
    try:
        text.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return _PERHAPS_TRADITIONAL.isdisjoint(text)


@functools.cache
def _converter(name: str) -> OpenCC:
    from opencc import OpenCC

    return OpenCC(name)
