"""Words in the place of what a model must not touch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.placeholders import put_back, put_in, stand_in
from regard.text.entities import find_kept


def test_there_and_back() -> None:
    text = "请访问https://x.org和https://y.org，再看https://x.org。"
    found = stand_in(text, find_kept(text, chinese=True), "zh", "en")
    assert found is not None
    masked, stand_ins = found
    assert masked == "请访问波士顿和澳大利亚，再看波士顿。"
    answer = put_back(masked, "Visit Boston and Australia, then look at Boston.", stand_ins)
    assert answer == "Visit https://x.org and https://y.org, then look at https://x.org."
    assert put_back(masked, "Visit Boston and Australia.", stand_ins) is None
    assert put_back(masked, "Bostonians visit Australia and Boston.", stand_ins) is None


def test_numbers_stand_in_for_numbers() -> None:
    text = "1998年有37人"
    found = stand_in(text, find_kept(text, chinese=True), "zh", "en")
    assert found is not None
    assert found[0] == "1995年有20人"
    assert put_back(found[0], "There were 20 people in 1995.", found[1]) == "There were 37 people in 1998."
    assert put_back(found[0], "There were 200 people in 1995.", found[1]) is None


def test_what_is_meant_can_be_read_again() -> None:
    text = "1998年有37人，1999年有38人，3，4，5"
    found = stand_in(text, find_kept(text, chinese=True), "zh", "en")
    assert found is not None
    assert found[0] == "1995年有20人，2003年有30人，50，10，100"
    assert put_in(*found) == text


def test_other_languages_have_fewer() -> None:
    text = "siehe https://x.org"
    found = stand_in(text, find_kept(text, chinese=False), "de", "fr")
    assert found is not None
    assert found[0] == "siehe Python"


def test_words_of_the_text_do_not_stand_in() -> None:
    text = "I left Boston for `a`."
    found = stand_in(text, find_kept(text, chinese=False), "en", "zh")
    assert found is not None
    assert found[0] == "I left Boston for Australia."


@given(st.lists(st.sampled_from(["`a`", "`b`", "https://x.org/1", "x@y.org", "我", " 爱 ", "，"]), max_size=30))
def test_a_model_that_translates_them_gives_everything_back(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = stand_in(text, find_kept(text, chinese=True), "zh", "en")
    if found is None:
        return
    masked, stand_ins = found
    translation = masked
    for one in stand_ins:
        translation = translation.replace(one.source, f" {one.target} ")
    answer = put_back(masked, translation, stand_ins)
    assert answer is not None
    assert answer.replace(" ", "") == text.replace(" ", "")


def test_more_than_there_are_words_for() -> None:
    text = " ".join(f"`{number}`" for number in range(40))
    assert stand_in(text, find_kept(text, chinese=False), "en", "zh") is None
