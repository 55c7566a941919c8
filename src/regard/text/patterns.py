"""Regular expressions that are compiled when they are first used: a short command does not need most of them."""

from __future__ import annotations

import re
from typing import Any, cast

METHODS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn", "groups", "groupindex")


class LazyPattern:
    """A compiled pattern's methods become this object's own at the first use, so that later uses cost nothing more."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        self.__dict__.update({method: getattr(compiled, method) for method in METHODS})
        return self.__dict__[name]


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` gives, but for a mistake in the pattern, which raises at the first use."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))
