"""Hallucinated names, and the case of copied ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.language_pair import find_language_pair
from regard.guards.missing import is_written, occurrence
from regard.guards.names import has_hallucinated_name, repair_name_case

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


def test_hallucinated_names() -> None:
    assert has_hallucinated_name("图书馆", "Tom went to the library.", ZH_EN)
    assert not has_hallucinated_name("图书馆", "a summary of tomorrow", ZH_EN)
    assert not has_hallucinated_name("湯姆", "Tom", ZH_EN)
    assert has_hallucinated_name("I read.", "我读 Jea 书。", EN_ZH)
    assert not has_hallucinated_name("I read a disc.", "我读CD。", EN_ZH)


def test_the_case_of_names_is_restored() -> None:
    assert repair_name_case("我用iPhone和NASA", "I use iphone and Nasa.", ZH_EN) == "I use iPhone and NASA."
    assert repair_name_case("我用Go", "Let's go to Gotham", ZH_EN) == "Let's Go to Gotham"
    fun = "I work in IT, and it is fun."
    assert repair_name_case("我做IT，它有趣", fun, ZH_EN) == fun
    assert repair_name_case("My iPhone is on TV.", "我的iphone在tv上。", EN_ZH) == "我的iPhone在tv上。"


@given(
    st.sampled_from(["CD", "NASA", "é", "C++"]),
    st.lists(st.sampled_from(["CD", "s", "NASA", "é", "C++", " ", "我", "x"])),
)
def test_a_name_that_is_written_is_an_occurrence(name: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    exact = [match for match in occurrence(name).finditer(text) if match[0] == name]
    assert is_written(name, text) == bool(exact)
