"""Conversion between traditional and simplified Chinese characters with OpenCC (docs/decisions/016).

OpenCC and its dictionaries are loaded on first use. Simplified text usually needs no conversion and does not load them:
its characters are in GB 2312, which contains only a few characters that may be traditional.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal

from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS, has_han

if TYPE_CHECKING:
    from opencc import OpenCC

ChineseScript = Literal["simplified", "traditional"]
_HAN_RUN = lazy_pattern(f"[{HAN_CHARACTERS}]+")
# Characters of GB 2312 that OpenCC simplifies, most of them with exceptions: 乾 becomes 干, but not in 乾坤.
_PERHAPS_TRADITIONAL = frozenset("乾吒夥後徵拚捱摺於榘菸薹袷醣麴麽")
_TRADITIONAL_TAGS = frozenset(["hant", "tw", "hk", "mo"])


def simplify(text: str) -> str:
    """Convert to simplified characters; text that is not Chinese is unchanged."""
    if all(map(is_surely_simplified, _HAN_RUN.findall(text))):
        return text
    converted: str = _converter("t2s").convert(text)
    return converted


def traditionalise(text: str) -> str:
    """Convert to traditional characters, in the forms that are standard in Taiwan."""
    if not has_han(text):
        return text
    converted: str = _converter("s2tw").convert(text)
    return converted


def script_of(tag: str) -> ChineseScript | None:
    """The script that a language tag names: "traditional" for zh-Hant, zh-TW, zh-HK and zh-MO, else None."""
    language, *rest = re.split("[-_]", tag.lower())
    traditional = language == "zh" and "hans" not in rest and not _TRADITIONAL_TAGS.isdisjoint(rest)
    return "traditional" if traditional else None


def is_surely_simplified(text: str) -> bool:
    """Whether all characters are in GB 2312 and none may be traditional."""
    try:
        text.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return _PERHAPS_TRADITIONAL.isdisjoint(text)


@functools.cache
def _converter(name: str) -> OpenCC:
    from opencc import OpenCC

    return OpenCC(name)
