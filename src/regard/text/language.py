"""Language tags, and language detection by script.

Han characters without kana are detected as Chinese, kana as Japanese, hangul as Korean, Latin letters as English (the
only language in Latin letters that the bundled models translate). For other scripts only the script is reported.
In mixed text the majority decides, where a Han character counts as much as a Latin word; a tie is Chinese, because
Chinese with English words in it is more common than the reverse. URLs, e-mail addresses and code do not count.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from regard.text.literals import find_literals
from regard.text.normalise import normalise
from regard.text.patterns import lazy_pattern
from regard.text.spans import remove_spans

HAN, LATIN, KANA, HANGUL = "Han", "Latin", "kana", "hangul"
LANGUAGES = {HAN: "zh", LATIN: "en", KANA: "ja", HANGUL: "ko"}
# Of these scripts each character counts; of the others, each word.
_BY_CHARACTER = {"CJK": HAN, "IDEOGRAPHIC": HAN, "HIRAGANA": KANA, "KATAKANA": KANA, "HANGUL": HANGUL}
_MIN_KANA_SHARE = 0.3  # of kana and Han, in Japanese; Chinese shop names may contain a single の
_WORD = lazy_pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ONLY_HAN = lazy_pattern("[\u4e00-\u9fff]+")


@dataclass(frozen=True)
class DetectedLanguage:
    """Both fields are empty for a text without letters; `language` is empty for a script of several languages."""

    language: str = ""  # "zh", "en", "ja", "ko"
    script: str = ""  # "Han", "Latin", "kana", "hangul", "Cyrillic", "Arabic", …


def detect_language(text: str) -> DetectedLanguage:
    counts: Counter[str] = Counter()
    text = normalise(text)
    words = remove_spans(text, [span for span in find_literals(text) if span.kind != "number"])
    if words.isascii():
        return DetectedLanguage(LANGUAGES[LATIN], LATIN) if _WORD.search(words) else DetectedLanguage()
    for word in _WORD.findall(words):
        if word.isascii():
            counts[LATIN] += 1
        elif _ONLY_HAN.fullmatch(word):
            counts[HAN] += len(word)
        else:
            counts.update(_scripts(word))
    if 2 * counts[LATIN] > max(4, counts[HAN] + counts[KANA] + counts[HANGUL]):  # English quoting Japanese or Korean
        counts[KANA], counts[HANGUL] = (min(counts[script], 1) for script in (KANA, HANGUL))
    kana, han = counts[KANA], counts[HAN]
    if kana and kana >= _MIN_KANA_SHARE * (kana + han):
        counts[KANA] += counts.pop(HAN, 0)  # Japanese is written in both
    elif kana:
        counts[HAN] += counts.pop(KANA)
    if not counts.total():
        return DetectedLanguage()
    most = max(counts.values())
    script = HAN if counts[HAN] == most else next(name for name in sorted(counts) if counts[name] == most)
    return DetectedLanguage(LANGUAGES.get(script, ""), script)


def same_language(one: str, other: str) -> bool:
    """Whether two tags have the same base language, as zh and zh-Hans do."""
    return base_language(one) == base_language(other)


@functools.lru_cache(maxsize=256)
def base_language(tag: str) -> str:
    """The language of a tag, without script and region: zh-Hant-TW → zh."""
    return re.split("[-_]", tag.lower())[0]


def _scripts(word: str) -> Counter[str]:
    """Count the scripts of a run of letters: by character for Han, kana and hangul, by run for the others."""
    found: Counter[str] = Counter()
    before = ""
    for character in word:
        if not character.isalpha() and character != "〇":  # a Chinese digit, though to Unicode no letter
            continue
        script, by_character = _script(character)
        if by_character or (script and script != before):
            found[script] += 1
        before = script
    return found


@functools.lru_cache(maxsize=4096)
def _script(character: str) -> tuple[str, bool]:
    """The script, and whether it is counted by character."""
    first = re.split("[ -]", unicodedata.name(character, ""))[0]  # ー is KATAKANA-HIRAGANA
    return _BY_CHARACTER.get(first) or first.capitalize(), first in _BY_CHARACTER
