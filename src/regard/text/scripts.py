"""Character classes of scripts, for use inside the brackets of a regular expression."""

from __future__ import annotations

from regard.text.patterns import lazy_pattern

HAN_CHARACTERS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
LATIN_CHARACTERS = "A-Za-zÀ-ɏ\u02b0-\u02ff\u1e00-\u1eff"
_ANY_HAN = lazy_pattern(f"[{HAN_CHARACTERS}]")


def has_han(text: str) -> bool:
    return _ANY_HAN.search(text) is not None
