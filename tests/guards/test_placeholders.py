"""Placeholders in place of entities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.entities import find_entities
from regard.guards.language_pair import LanguagePair, find_language_pair
from regard.guards.placeholders import Placeholder, insert_placeholders, restore_source, restore_translation

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


def mask(text: str, pair: LanguagePair) -> tuple[str, list[Placeholder]] | None:
    return insert_placeholders(text, find_entities(text, pair.source), pair)


def test_entities_are_restored() -> None:
    text = "请访问https://x.org和https://y.org，再看https://x.org。"
    found = mask(text, ZH_EN)
    assert found is not None
    masked, placeholders = found
    assert masked == "请访问波士顿和澳大利亚，再看波士顿。"
    answer = restore_translation(masked, "Visit Boston and Australia, then look at Boston.", placeholders)
    assert answer == "Visit https://x.org and https://y.org, then look at https://x.org."
    assert restore_translation(masked, "Visit Boston and Australia.", placeholders) is None
    assert restore_translation(masked, "Bostonians visit Australia and Boston.", placeholders) is None


def test_placeholders_of_numbers_are_numbers() -> None:
    text = "1998年有37人"
    found = mask(text, ZH_EN)
    assert found is not None
    assert found[0] == "1995年有20人"
    assert restore_translation(found[0], "There were 20 people in 1995.", found[1]) == "There were 37 people in 1998."
    assert restore_translation(found[0], "There were 200 people in 1995.", found[1]) is None


def test_the_source_is_restored() -> None:
    text = "1998年有37人，1999年有38人，3，4，5"
    found = mask(text, ZH_EN)
    assert found is not None
    assert found[0] == "1995年有20人，2003年有30人，50，10，100"
    assert restore_source(*found) == text


def test_a_pair_without_rules_has_placeholders_too() -> None:
    text = "siehe https://x.org"
    found = mask(text, find_language_pair("de", "fr"))
    assert found is not None
    assert found[0] == "siehe Python"


def test_words_of_the_text_are_not_placeholders() -> None:
    text = "I left Boston for `a`."
    found = mask(text, EN_ZH)
    assert found is not None
    assert found[0] == "I left Boston for Australia."


@given(st.lists(st.sampled_from(["`a`", "`b`", "https://x.org/1", "x@y.org", "我", " 爱 ", "，"]), max_size=30))
def test_all_entities_are_restored_if_the_model_translates_the_placeholders(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = mask(text, ZH_EN)
    if found is None:
        return
    masked, placeholders = found
    translation = masked
    for one in placeholders:
        translation = translation.replace(one.source, f" {one.target} ")
    answer = restore_translation(masked, translation, placeholders)
    assert answer is not None
    assert answer.replace(" ", "") == text.replace(" ", "")


def test_more_entities_than_placeholders() -> None:
    text = " ".join(f"`{number}`" for number in range(40))
    assert mask(text, EN_ZH) is None
