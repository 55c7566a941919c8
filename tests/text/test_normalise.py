"""Unicode normalisation."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.normalise import folded_characters, is_plain, normalise


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ＡＢＣ１２３％", "ABC123%"),
        ("ｶﾞｷﾞ｡", "ガギ。"),
        ("ﬁne oﬃce", "fine office"),
        ("𝐀𝓑", "AB"),
        ("a\u00a0b\u3000c\u2003 d", "a b c d"),
        ("  a \t b\r\nc\u2028d ", "a b c d"),
        ("zero\u200bwidth\ufeff\u00ad", "zerowidth"),
        ("bell\x07 \x00null", "bell null"),
        ("\x1b[1;31mred\x1b[0m \x1b[2K\x1b[?25lline", "red line"),
        ("\x1b\x1b[31m红\x1b[m[1]", "红[1]"),
        ("\x1b alone, \x1b[", "alone, ["),
        ("cafe\u0301", "café"),
        ("▁under", "_under"),
        ("漢\U000e0100字", "漢字"),
        ("a\ufe0fb\u200dc", "abc"),
        ("\ud800x", "\ufffdx"),
        ("\ud83d\ude00", "😀"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_folds(given: str, expected: str) -> None:
    assert normalise(given) == expected


@pytest.mark.parametrize(
    "text",
    [
        "你好，世界。好！吗？（是）：；“引”…《书》、～",
        "m² ½ ① ™ ℃ № Ⅳ ㎡ x₂ ´ ¨",
        "ทำน้ำ",
        "می\u200cخواهم",
        "👩\u200d👩\u200d👧",
        "❤\ufe0f",
        "👍🏽",
        "1\ufe0f\u20e3",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ],
)
def test_does_not_fold(text: str) -> None:
    assert normalise(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(st.one_of(st.characters(), st.sampled_from("\u200d\ufe0f\u200c😀👩1\u20e3ب \u0301ﾞ▁\n\ud800"))))
def test_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    once.encode()
    assert once == once.strip()
    assert "▁" not in once


def test_every_character_is_stable_and_no_control_character_remains() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cn", "Co"):
            continue
        once = normalise(f"a{chr(code)}b")
        assert normalise(once) == once
        assert "Cc" not in map(unicodedata.category, once)


def test_plain_characters_are_not_changed() -> None:
    plain = {chr(code) for code in range(0x10000) if is_plain(chr(code))}
    assert {"a", "我", "。", "，", "“", "…"} <= plain
    assert not plain & folded_characters().keys()
    assert all(unicodedata.is_normalized("NFC", character) for character in plain)
