"""What a translation changes, and the note about it."""

from __future__ import annotations

from regard.guards.changes import Change, find_changes, write_note
from regard.guards.language_pair import find_language_pair

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


def test_the_note_names_the_changes() -> None:
    changes = find_changes("质量不是1e-7公斤。", "The quality is 1 kilogram.", ZH_EN)
    assert write_note(changes) == (
        'check numbers, units and negations: "1e-7公斤" became "1 kilogram", "不" is missing'
    )
    assert write_note([]) == ""


def test_a_long_note_is_cut() -> None:
    assert write_note([Change(str(number), "") for number in range(8)]).endswith('"4" is missing and 3 more')


def test_a_range_stays_a_range() -> None:
    assert find_changes("4到5英里", "4 to 5 miles", ZH_EN) == []
    assert find_changes("4到5英里", "between 4 and 5 miles", ZH_EN) == []
    assert find_changes("4到5英里", "4 miles 5 miles", ZH_EN) == [Change("4到5英里", "separate numbers")]


def test_of_other_languages_only_digits_are_compared() -> None:
    pair = find_language_pair("en", "de")
    assert find_changes("It costs 1,234.5 euros, two of them.", "Es kostet 1.234,5 Euro, zwei davon.", pair) == []
    assert find_changes("It costs 12 euros.", "Es kostet 13 Euro.", pair) == [Change("12", "13")]
