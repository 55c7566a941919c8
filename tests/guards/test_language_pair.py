"""Which rules a language pair gets."""

from __future__ import annotations

import pytest

from regard.guards.chinese import CHINESE
from regard.guards.english import ENGLISH
from regard.guards.language_pair import find_language_pair


@pytest.mark.parametrize(("src_lang", "tgt_lang"), [("zh", "en"), ("zh-Hans", "en"), ("zh_TW", "en-GB")])
def test_chinese_english_has_rules_in_both_directions(src_lang: str, tgt_lang: str) -> None:
    forth, back = find_language_pair(src_lang, tgt_lang), find_language_pair(tgt_lang, src_lang)
    assert (forth.source, forth.target, back.source, back.target) == (CHINESE, ENGLISH, ENGLISH, CHINESE)
    assert forth.converts_dates
    assert back.converts_dates
    assert ("波士顿", "Boston") in forth.name_placeholders
    assert ("Boston", "波士顿") in back.name_placeholders
    assert back.date_placeholders == tuple((tgt, src) for src, tgt in forth.date_placeholders)


@pytest.mark.parametrize(("src_lang", "tgt_lang"), [("en", "de"), ("de", "zh"), ("zh", "ja"), ("", "")])
def test_other_pairs_translate_no_dates(src_lang: str, tgt_lang: str) -> None:
    pair = find_language_pair(src_lang, tgt_lang)
    assert not pair.converts_dates
    assert all(source == target for source, target in pair.name_placeholders)
