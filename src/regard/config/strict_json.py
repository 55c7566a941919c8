"""JSON from a file or a request that nobody vouches for, read strictly.

Refused besides what is no JSON: text that is not UTF-8, a key given twice (readers disagree on which one counts), deep
nesting (it exhausts the stack of whoever walks the value), NaN and Infinity (they are not JSON), numbers too long to
compute with, and half a surrogate pair (it cannot be written again).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

from regard.errors import ConfigError

MOST_NESTING = 64
MOST_DIGITS = 400  # of a whole number


def parse_json(content: bytes | str, what: str) -> Any:
    """The value; a ConfigError that begins with `what`, the name of the file or of the thing, where there is none."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} is not JSON: it is not UTF-8 text (byte {error.start})") from None
    try:
        value = json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse_constant, parse_int=whole_number)
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply: the most is {MOST_NESTING} levels") from None
    except ValueError as error:
        raise ConfigError(f"{what} is not JSON: {error}") from None
    check_nesting(value, what)
    if "\\ud" in text or "\\uD" in text:
        check_surrogates(value, what)
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} is given twice")
    return found


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits):,} digits; the most is {MOST_DIGITS}")
    return int(digits)


def check_nesting(value: Any, what: str) -> None:
    level: list[Any] = [value]
    for _ in range(MOST_NESTING + 1):
        level = [inner for outer in level for inner in inner_values(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise ConfigError(f"{what} is nested too deeply: the most is {MOST_NESTING} levels")


def inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def check_surrogates(value: Any, what: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{what} has half a surrogate pair (\\ud800 to \\udfff), which is not a character") from None
