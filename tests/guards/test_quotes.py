"""Repair of quotation marks."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.quotes import _unpaired, repair_quotes

WORDS = st.lists(st.sampled_from(["a", "b", "cat", "我", "爱", "。", ",", '"', "“", "”", "3", "!", "…"]), max_size=40)


def letters(text: str) -> str:
    return re.sub(r"[\s\"“”]", "", text)


@given(WORDS, WORDS)
def test_quotation_marks(source: list[str], translation: list[str]) -> None:
    given, written = "".join(source), "".join(translation)
    repaired = repair_quotes(given, written)
    assert len(_unpaired(repaired)) <= len(_unpaired(given))
    assert repair_quotes(given, repaired) == repaired
    assert letters(repaired) == letters(written)


def test_straight_marks_are_paired_by_the_space_around_them() -> None:
    source = "她说：“是的。我爱你。”"
    assert repair_quotes(source, 'She said: "Yes. "I love you.') == "She said: Yes. I love you."
    assert repair_quotes(source, 'She said: "Yes." And: "No."') == 'She said: "Yes." And: "No."'


def test_superfluous_quotation_marks_are_removed() -> None:
    assert repair_quotes("他说好。", 'He said """""""""""" good.') == "He said good."
    assert repair_quotes("他说：“好。”", 'He said, "Good."') == 'He said, "Good."'
    assert repair_quotes("他说好。", 'He said, "Good.') == "He said, Good."
    answer = "他说“好”，她说“不”。"
    assert repair_quotes("He said 'yes' and she said 'no.'", answer) == answer
    assert repair_quotes("He isn't here and she hasn't come.", answer) == "他说好，她说不。"


def test_many_quotation_marks_and_urls_take_linear_time() -> None:
    """Quadratic time would exceed the test's time limit."""
    text = '"a" https://x.org/a ' * 10_000
    assert repair_quotes(text, text) == text
    assert '"' not in repair_quotes("a", text)
