"""JSON that nobody vouches for: what json reads comes back, and the rest is refused with a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config.strict_json import MOST_NESTING, parse_json
from regard.errors import ConfigError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


@given(VALUES, st.booleans())
def test_what_json_writes_comes_back(value: Any, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode(), "a file") == value


@given(st.binary(max_size=60) | TEXT)
def test_anything_else_is_refused_with_a_sentence(content: bytes | str) -> None:
    try:
        parse_json(content, "a file")
    except ConfigError as error:
        assert str(error).startswith("a file ")  # noqa: PT017


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", r"a file is not JSON: it is not UTF-8 text \(byte 0\)"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' is given twice"),
        ("[NaN]", "NaN is not a number of JSON"),
        ("-Infinity", "-Infinity is not a number of JSON"),
        ("9" * 401, "a whole number has 401 digits; the most is 400"),
        ("9" * 10_000, "a whole number has 10,000 digits"),
        (r'"\ud800"', "half a surrogate pair"),
        (r'{"\uDFFF": 1}', "half a surrogate pair"),
        ("[" * 100_000, f"nested too deeply: the most is {MOST_NESTING} levels"),
        ('{"a":' * 100_000, f"nested too deeply: the most is {MOST_NESTING} levels"),
        ("[" * 100_000 + "]" * 100_000, f"nested too deeply: the most is {MOST_NESTING} levels"),
        ("[" * (MOST_NESTING + 2) + "]" * (MOST_NESTING + 2), "nested too deeply"),
    ],
)
def test_refusals(content: bytes | str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_json(content, "a file")


def test_a_whole_pair_and_the_deepest_nesting_are_read() -> None:
    assert parse_json(r'"\ud83d\ude00"', "a file") == "😀"
    assert parse_json("[" * MOST_NESTING + "]" * MOST_NESTING, "a file")
