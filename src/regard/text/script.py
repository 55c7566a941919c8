"""Traditional and simplified Chinese characters, each made of the other by OpenCC (docs/decisions/016).

OpenCC and its dictionaries are loaded when they are first needed. Simplified text does not need them on its way in: its
characters are those of GB 2312, the mainland's first character set, which has hardly a traditional one.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal

from regard.text.language import has_han

if TYPE_CHECKING:
    from opencc import OpenCC

ChineseScript = Literal["simplified", "traditional"]
_HAN_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")


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


def is_plain(text: str) -> bool:
    """Whether all of it is in GB 2312."""
    try:
        text.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True


@functools.cache
def _converter(name: str) -> OpenCC:
    from opencc import OpenCC

    return OpenCC(name)
