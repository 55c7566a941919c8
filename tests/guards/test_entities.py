"""Entities of Chinese and of English texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.chinese import CHINESE
from regard.guards.english import ENGLISH
from regard.guards.entities import checked, find_entities, protected
from regard.guards.language_rules import LanguageRules
from regard.text.normalise import normalise
from regard.text.spans import map_between_spans, remove_spans


def entities(text: str, language: LanguageRules) -> list[tuple[str, str]]:
    return [(span.of(text), span.kind) for span in find_entities(text, language)]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("请访问https://example.com/a?b=c。谢谢", [("https://example.com/a?b=c", "url")]),
        ("看www.example.com/x, example.org.", [("www.example.com/x", "url"), ("example.org", "url")]),
        ("邮箱是foo.bar+x@mail.example.cn，", [("foo.bar+x@mail.example.cn", "email")]),
        ("用`pip install x`安装", [("`pip install x`", "code")]),
        ("调用open()和snake_case", [("open()", "code"), ("snake_case", "code")]),
        ("打开readme.txt", [("readme.txt", "url")]),
        ("版本3.11.2，2024-01-05", [("3.11.2", "code"), ("2024-01-05", "code")]),
        ("会议在2024-01-05举行", [("2024-01-05", "code")]),
        ("打138-0013-8000找我", [("138-0013-8000", "code")]),
        ("3-5天", [("3", "number"), ("5", "number")]),
        ("从10:30-11:30开会", [("10", "number"), ("30", "number"), ("11", "number"), ("30", "number")]),
        ("见https://x.org/A_(b)。", [("https://x.org/A_(b)", "url")]),
        ("（或(https://x.org/A)）", [("https://x.org/A", "url")]),
        ("<b>好</b> {name}", [("<b>", "code"), ("</b>", "code"), ("{name}", "code")]),
        ("@tom 看 #tag", [("@tom", "code"), ("#tag", "code")]),
        ("看--help和/usr/bin/env", [("--help", "code"), ("/usr/bin/env", "code")]),
        ("我爱你❤️👨‍👩‍👧", [("❤️👨‍👩‍👧", "symbol")]),
        ("有3个、1,000元，3.5%", [("3", "number"), ("1,000", "number"), ("3.5%", "number")]),
        ("我用C++和New York的AT&T", [("C++", "name"), ("New", "name"), ("York", "name"), ("AT&T", "name")]),
        ("卡拉OK，T恤", []),
        ("高180cm", [("180", "number")]),
        ("他来了。她走了", []),
        ("看https://zh.wikipedia.org/wiki/北京，好", [("https://zh.wikipedia.org/wiki/北京", "url")]),
        ("看https://例子.中国/路径", [("https://例子.中国/路径", "url")]),
        ("看https://example.com查看", [("https://example.com", "url")]),
        ("今天-5°C，$10，¥20", [("-5°C", "number"), ("$10", "number"), ("¥20", "number")]),
        ("他说こんにちは。", [("こんにちは", "foreign")]),
        ("二〇二四年，人人々", []),
        ("哈" * 60, [("哈" * 60, "code")]),
    ],
)
def test_in_chinese(text: str, spans: list[tuple[str, str]]) -> None:
    assert entities(normalise(text), CHINESE) == spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Flight CA1234, gate B12.", [("CA1234", "name"), ("B12", "name")]),
        ("NASA", [("NASA", "name")]),
        ("COVID-19 and CO2, v2.0.1", [("COVID-19", "name"), ("CO2", "name"), ("v2.0.1", "name")]),
        ("My iPhone plays CDs on TV.", [("iPhone", "name"), ("CD", "name")]),
        ("STOP IT, NASA", []),
        ("McDonald's in the USA", []),
        ('Run print("hello", 1) now.', [('print("hello", 1)', "code")]),
        (r"Open C:\Users\Tom.", [(r"C:\Users\Tom.", "code")]),
        ('It is {"key": 1}.', [('{"key": 1}', "code")]),
        ("SELECT * FROM users WHERE id = 1;", [("SELECT * FROM users WHERE id = 1;", "code")]),
        ("the book(s) in /tmp", [("/tmp", "code")]),
        ("I live in 北京 and say привет.", [("北京", "foreign"), ("привет", "foreign")]),
        ("x" * 50, [("x" * 50, "code")]),
    ],
)
def test_in_english(text: str, spans: list[tuple[str, str]]) -> None:
    assert entities(text, ENGLISH) == spans


def test_a_text_in_another_script_is_not_foreign_to_itself() -> None:
    assert entities("Я люблю Москву и Python", ENGLISH) == []


def test_unfinished_entities_take_linear_time() -> None:
    """Quadratic time would exceed the test's time limit."""
    for beginning in ("SELECT ", '{"a', "f(", "https://", "NASA ", "привет a ", "-$"):
        find_entities(beginning * 20_000, ENGLISH)


def test_english_words_are_not_entities() -> None:
    assert entities("Tom came.He has 3 cats, e.g. two in the U.S.", ENGLISH) == [("3", "number")]
    assert entities("I'd like a T-shirt; either/or", ENGLISH) == []


def test_each_entity_is_protected_or_checked() -> None:
    spans = find_entities("3个 https://x.org Python 😀", CHINESE)
    assert sorted(protected(spans) + checked(spans), key=lambda span: span.start) == list(spans)
    assert [span.kind for span in checked(spans)] == ["number", "name"]


@given(st.text(max_size=80), st.sampled_from([CHINESE, ENGLISH]))
def test_spans_are_in_order_and_apart(text: str, language: LanguageRules) -> None:
    text = normalise(text)
    at = 0
    for span in find_entities(text, language):
        assert at <= span.start < span.stop <= len(text)
        at = span.stop
    spans = find_entities(text, language)
    assert map_between_spans(text, spans, lambda part: part) == text
    changed = map_between_spans(text, spans, lambda part: "")
    assert changed == "".join(span.of(text) for span in spans)
    assert remove_spans(text, []) == text
    assert len(remove_spans(text, spans)) == len(text) - len(changed) + len(spans)


@pytest.mark.parametrize(
    "unit", ["a", "1", "`", "/a", "a.", "a_", "<a", "1-", "a@", "a.b@", "_", "www.", "1,", "--a", "😀"]
)
def test_repeated_units_take_linear_time(unit: str) -> None:
    """Quadratic time would exceed the test's time limit."""
    find_entities(unit * 100_000, CHINESE)
