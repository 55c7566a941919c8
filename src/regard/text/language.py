"""Which language a text is in, as far as its script tells.

Han characters without kana are Chinese, kana are Japanese, hangul is Korean. Latin letters are many languages: here
they pass for English, the one that models of this package read. Of other scripts the script is named, and no language.
In mixed text the larger part decides, counted in words: a Han character says about as much as a Latin word, and
Chinese with English words in it is commoner than the reverse, so that a tie is Chinese. Addresses and code are in no
language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from regard.text.entities import HAN_CHARACTERS, find_kept, fixed, without
from regard.text.normalise import normalise

HAN, LATIN, KANA, HANGUL = "Han", "Latin", "kana", "hangul"
LANGUAGES = {HAN: "zh", LATIN: "en", KANA: "ja", HANGUL: "ko"}
# Han, kana and hangul are written without spaces or with long words: each character counts, as each word elsewhere.
_BY_CHARACTER = {"CJK": HAN, "IDEOGRAPHIC": HAN, "HIRAGANA": KANA, "KATAKANA": KANA, "HANGUL": HANGUL}
_JAPANESE_FROM = 0.3  # kana among Han and kana; の alone is fashionable in Chinese
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ANY_HAN = re.compile(f"[{HAN_CHARACTERS}]")


@dataclass(frozen=True)
class Guess:
    """Empty where nothing is known: no letters at all, or a script of no language in particular."""

    language: str = ""  # "zh", "en", "ja", "ko"
    script: str = ""  # "Han", "Latin", "kana", "hangul", "Cyrillic", "Arabic", …


def guess_language(text: str) -> Guess:
    counts: Counter[str] = Counter()
    text = normalise(text)
    in_no_language = [span for span in fixed(find_kept(text, chinese=False)) if span.kind != "foreign"]
    for match in _WORD.finditer(without(text, in_no_language)):
        counts.update(_scripts(match[0]))
    if 2 * counts[LATIN] > max(4, counts[HAN] + counts[KANA] + counts[HANGUL]):  # English that quotes a Japanese word
        counts[KANA], counts[HANGUL] = (min(counts[script], 1) for script in (KANA, HANGUL))
    kana, han = counts[KANA], counts[HAN]
    if kana and kana >= _JAPANESE_FROM * (kana + han):
        counts[KANA] += counts.pop(HAN, 0)  # Japanese is written in both
    elif kana:
        counts[HAN] += counts.pop(KANA)
    if not counts.total():
        return Guess()
    most = max(counts.values())
    script = HAN if counts[HAN] == most else next(name for name in sorted(counts) if counts[name] == most)
    return Guess(LANGUAGES.get(script, ""), script)


def has_han(text: str) -> bool:
    return _ANY_HAN.search(text) is not None


def same_language(one: str, other: str) -> bool:
    """Whether two language tags mean one language, as zh and zh-Hans do."""
    return base_language(one) == base_language(other)


def base_language(tag: str) -> str:
    """The language of a tag, without script and region."""
    return re.split("[-_]", tag.lower())[0]


def _scripts(word: str) -> Counter[str]:
    """The scripts of a run of letters: each character of some, each stretch of the others."""
    found: Counter[str] = Counter()
    before = ""
    for character in filter(str.isalpha, word):
        first = re.split("[ -]", unicodedata.name(character, ""))[0]  # ー is KATAKANA-HIRAGANA
        script = _BY_CHARACTER.get(first) or first.capitalize()
        if first in _BY_CHARACTER or (script and script != before):
            found[script] += 1
        before = script
    return found
