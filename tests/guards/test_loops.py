"""Loops: found, and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.loops import _max_repeats, _repeats_too_often, _units, has_loop, remove_loops

WORDS = st.lists(st.sampled_from(["a", "b", "cat", "我", "爱", "。", ",", '"', "“", "”", "3", "!", "…"]), max_size=40)


@given(WORDS, WORDS)
def test_no_loop_remains_after_removal(source: list[str], translation: list[str]) -> None:
    given, written = " ".join(source), " ".join(translation)
    cut = remove_loops(given, written)
    assert not has_loop(given, cut)
    assert len(cut) <= len(written)
    assert bool(cut) == bool(written)
    if not has_loop(given, written):
        assert cut == written


@given(WORDS, st.integers(1, 6), st.integers(3, 30))
def test_any_loop_is_found(words: list[str], period: int, times: int) -> None:
    phrase = [f"w{number}" for number in range(period)]
    written = " ".join([*words, *phrase * times])
    assert has_loop("我 爱", written)
    assert remove_loops("我 爱", written).count("w0") <= 2


@given(WORDS, WORDS, st.sampled_from(["", " "]))
def test_the_quick_look_misses_no_loop(source: list[str], translation: list[str], space: str) -> None:
    given, written = space.join(source), space.join(translation)
    if _repeats_too_often(_units(written), _max_repeats(given)):
        assert has_loop(given, written)
