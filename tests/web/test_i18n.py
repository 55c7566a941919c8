"""The page's messages: both languages have all of them, with the same placeholders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "web" / "src"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
CHINESE = re.compile("[\u4e00-\u9fff]")
# Names and formulas that are the same in both.
SAME = {"intervention.scale", "decode.top_k", "decode.top_p"}


def catalogue(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((SOURCE / "i18n" / f"{language}.json").read_text("utf-8"))
    return found


def test_both_catalogues_have_the_same_keys() -> None:
    assert list(catalogue("en")) == list(catalogue("zh"))


def test_nothing_is_empty() -> None:
    for language in ("en", "zh"):
        assert [key for key, text in catalogue(language).items() if not text.strip()] == []


def test_the_placeholders_are_the_same() -> None:
    english, chinese = catalogue("en"), catalogue("zh")
    different = [
        key for key in english if set(PLACEHOLDER.findall(english[key])) != set(PLACEHOLDER.findall(chinese[key]))
    ]
    assert different == []


def test_chinese_is_chinese_and_english_is_not() -> None:
    assert [key for key, text in catalogue("zh").items() if not CHINESE.search(text) and key not in SAME] == []
    assert [key for key, text in catalogue("en").items() if CHINESE.search(text)] == []


@pytest.fixture(scope="module")
def code() -> str:
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".svelte", ".ts"))
    return "\n".join(path.read_text("utf-8") for path in files)


def test_every_message_is_used(code: str) -> None:
    """As it stands, or with a value in its middle: t(`panel.${panel}`)."""
    patterns = [
        re.compile(".+".join(map(re.escape, re.split(r"\$\{[^}]*\}", template))))
        for template in re.findall(r"`([a-z][\w.-]*\$\{[^`]*)`", code)
    ]
    unused = [
        key
        for key in catalogue("en")
        if f'"{key}"' not in code and not any(pattern.fullmatch(key) for pattern in patterns)
    ]
    assert unused == []


def test_the_pages_text_is_never_html(code: str) -> None:
    """What a person typed must stay text."""
    assert not re.search(r"\{@html|innerHTML|insertAdjacentHTML|document\.write", code)
