"""Traditional to simplified and back."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.script import is_plain, simplify, traditionalise

PAIRS = [
    ("我爱读书。", "我愛讀書。"),
    ("后来她去了图书馆。", "後來她去了圖書館。"),
    ("皇后的头发很长。", "皇后的頭髮很長。"),  # 后 and 发 are two characters each
    ("干净的面条", "乾淨的麵條"),
    ("你好", "你好"),
]


@pytest.mark.parametrize(("simplified", "traditional"), PAIRS)
def test_both_ways(simplified: str, traditional: str) -> None:
    assert simplify(traditional) == simplified
    assert traditionalise(simplified) == traditional
    assert simplify(simplified) == simplified


def test_other_writing_stays() -> None:
    for text in ("I love you.", "Привет", "123 😀", "", "`x_y` https://x.org"):
        assert simplify(text) == traditionalise(text) == text


def test_hong_kong_s_forms_are_read_too() -> None:
    assert simplify("這裏有麪包") == "这里有面包"


@given(st.text(max_size=60))
def test_what_is_simplified_stays_so(text: str) -> None:
    once = simplify(text)
    assert simplify(once) == once


def test_simplified_text_does_not_load_the_dictionaries() -> None:
    assert is_plain("我爱读书")
    assert not is_plain("讀書")
    script = (
        "import sys; from regard.text.script import simplify, traditionalise;"
        "assert simplify('我爱读书，abc') == '我爱读书，abc'; traditionalise('abc');"
        "assert 'opencc' not in sys.modules; simplify('讀書'); assert 'opencc' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
