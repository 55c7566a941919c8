"""Language detection by script, and language tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.language import DetectedLanguage, detect_language, same_language
from regard.text.scripts import has_han

HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=20)
LATIN = st.lists(st.sampled_from(["the", "cat", "Straße", "don't", "é"]), min_size=1, max_size=20).map(" ".join)
SIGNS = st.text(st.sampled_from("0123456789 .,!?。，！？“”😀€\u200b\x07\n"), max_size=20)


@pytest.mark.parametrize(
    ("text", "language", "script"),
    [
        ("我爱你。", "zh", "Han"),
        ("我愛你", "zh", "Han"),
        ("我爱Python", "zh", "Han"),
        ("iPhone 15 Pro Max 多少钱", "zh", "Han"),
        ("How do you say 你好 in English?", "en", "Latin"),
        ("I love you.", "en", "Latin"),
        ("看https://example.com/a/very/long/address", "zh", "Han"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "en", "Latin"),
        ("こんにちは", "ja", "kana"),
        ("東京へ行きます", "ja", "kana"),
        ("ｶﾀｶﾅ", "ja", "kana"),
        ("コーヒー", "ja", "kana"),
        ("优之の良品店", "zh", "Han"),
        ("안녕하세요 여러분", "ko", "hangul"),
        ('He said "こんにちは" to me.', "en", "Latin"),
        ("私はPythonとRubyとJavaが好きです", "ja", "kana"),
        ("Привет, мир", "", "Cyrillic"),
        ("مرحبا", "", "Arabic"),
        ("123 😀 !", "", ""),
        ("", "", ""),
    ],
)
def test_scripts(text: str, language: str, script: str) -> None:
    assert detect_language(text) == DetectedLanguage(language, script)


@given(HAN, SIGNS)
def test_han_is_chinese(han: str, signs: str) -> None:
    assert detect_language(signs + han + signs).language == "zh"
    assert has_han(han)


@given(LATIN, SIGNS)
def test_latin_is_english(latin: str, signs: str) -> None:
    assert detect_language(signs + " " + latin + " " + signs).language == "en"
    assert not has_han(latin + signs)


@given(SIGNS)
def test_signs_have_no_language(signs: str) -> None:
    assert detect_language(signs) == DetectedLanguage()


@given(HAN, LATIN)
def test_the_majority_decides(han: str, latin: str) -> None:
    assert detect_language(f"{latin} {han}").language == ("zh" if len(han) >= len(latin.split()) else "en")


@given(st.text())
def test_any_text(text: str) -> None:
    detected = detect_language(text)
    assert detected == detect_language(text)
    assert detected.script or not detected.language


def test_tags() -> None:
    assert same_language("zh", "zh-Hans")
    assert same_language("ZH_tw", "zh")
    assert not same_language("zh", "en")
