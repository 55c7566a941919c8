"""What a translation changes, and the note about it."""

from __future__ import annotations

import pytest

from regard.guards.changes import Change, find_changes, write_note
from regard.guards.language_pair import LanguagePair, find_language_pair

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


@pytest.mark.parametrize(
    ("pair", "source", "wrong", "right"),
    [
        (ZH_EN, "剂量是551天。", "It is 551 k days.", "It is 551 days."),
        (ZH_EN, "质量是94141年。", "It is 94,141.", "It is 94,141 years."),
        (ZH_EN, "我看到了-16摄氏度。", "I saw -16 ° Celt.", "I saw -16 °C."),
        (
            EN_ZH,
            "At 6:30 pm, today he bought 2 minutes.",
            "6点30分，他今天晚2分钟就买了。",
            "下午6点30分，他今天买了2分钟。",
        ),
        (EN_ZH, "We have £3.", "我们有超过3英镑。", "我们有3英镑。"),
        (EN_ZH, "It is 11 am.", "是上午11点0", "是上午11点"),
        (ZH_EN, "下午六点十五分买了4e-6。", "6:15 p.m.-4e-6 he bought.", "At 6:15 p.m. he bought 4e-6."),
        (EN_ZH, "It takes nine hours.", "要九多小时。", "要九小时。"),
        (EN_ZH, "It is 6–11 km.", "是6公里11公里。", "是6–11公里。"),
        (ZH_EN, "有七八个人。", "There are 7-9 people.", "There are 7-8 people."),
    ],
)
def test_malformed_numbers_and_units_are_changes(pair: LanguagePair, source: str, wrong: str, right: str) -> None:
    assert find_changes(source, wrong, pair)
    assert not find_changes(source, right, pair)


def test_more_than_is_no_change_where_the_source_says_it() -> None:
    assert find_changes("It is more than 3 km.", "超过3公里。", EN_ZH) == []
    assert find_changes("See you at 8 pm.", "晚8点见。", EN_ZH) == []
