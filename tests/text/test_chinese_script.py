"""Traditional to simplified and back."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.chinese_script import is_surely_simplified, script_of, simplify, traditionalise

PAIRS = [
    ("我爱读书。", "我愛讀書。"),
    ("后来她去了图书馆。", "後來她去了圖書館。"),
    ("皇后的头发很长。", "皇后的頭髮很長。"),  # 后 and 发 are two characters each
    ("干净的面条", "乾淨的麵條"),
    ("你好", "你好"),
]


@pytest.mark.parametrize(("simplified", "traditional"), PAIRS)
def test_both_directions(simplified: str, traditional: str) -> None:
    assert simplify(traditional) == simplified
    assert traditionalise(simplified) == traditional
    assert simplify(simplified) == simplified


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [("我在你後面。", "我在你后面。"), ("以後", "以后"), ("由於下雨", "由于下雨"), ("什麽", "什么"), ("乾杯", "干杯")],
)
def test_traditional_characters_of_gb2312(traditional: str, simplified: str) -> None:
    """GB 2312 contains these characters too, so membership alone does not show that a text is simplified."""
    assert simplify(traditional) == simplified


@pytest.mark.parametrize("text", ["乾坤", "乾隆", "哪吒", "宫商角徵羽", "皇后"])
def test_exceptions_of_simplified_text_are_unchanged(text: str) -> None:
    assert simplify(text) == text


def test_characters_that_skip_conversion_are_simplified() -> None:
    """Compared with OpenCC, which the traditional character in the first line causes to be used."""
    plain = [character for character in map(chr, range(0x3400, 0xA000)) if is_surely_simplified(character)]
    assert len(plain) > 6000
    assert simplify("書\n" + "\n".join(plain)) == "书\n" + "\n".join(plain)


@pytest.mark.parametrize("tag", ["zh-Hant", "zh-TW", "zh-HK", "zh-MO", "ZH_tw", "zh_hant", "zh-Hant-HK"])
def test_tags_of_traditional_chinese(tag: str) -> None:
    assert script_of(tag) == "traditional"


@pytest.mark.parametrize("tag", ["", "zh", "zh-CN", "zh-Hans", "zh-Hans-HK", "en-HK", "ja"])
def test_other_tags(tag: str) -> None:
    assert script_of(tag) is None


def test_other_scripts_are_unchanged() -> None:
    for text in ("I love you.", "Привет", "123 😀", "", "`x_y` https://x.org"):
        assert simplify(text) == traditionalise(text) == text


def test_forms_of_hong_kong() -> None:
    assert simplify("這裏有麪包") == "这里有面包"


@given(st.text(max_size=60))
def test_simplify_is_idempotent(text: str) -> None:
    once = simplify(text)
    assert simplify(once) == once


def test_simplified_text_does_not_load_the_dictionaries() -> None:
    assert is_surely_simplified("我爱读书")
    assert not is_surely_simplified("讀書")
    script = (
        "import sys; from regard.text.chinese_script import simplify, traditionalise;"
        "assert simplify('我爱读书，abc') == '我爱读书，abc'; traditionalise('abc');"
        "assert 'opencc' not in sys.modules; simplify('讀書'); assert 'opencc' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
