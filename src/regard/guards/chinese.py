"""The rules of Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.guards.chinese_quantities import find_chinese_quantities, may_have_chinese_quantities
from regard.guards.language_rules import Date, LanguageRules, TextContext
from regard.guards.negations import Negations, find_chinese_negations, may_have_chinese_negations
from regard.guards.numbers import number_values, numbers_to_digits
from regard.guards.quantities import Quantity
from regard.guards.words import WORD
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS, has_han
from regard.text.spans import Span

_MONTH, _DAY, _YEAR = "(?:1[0-2]|0?[1-9])", "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-9]|20)[0-9]{2}"
_NOT_NAMES = frozenset(["ok", "am", "pm"])  # 卡拉OK is karaoke
_LATIN_WORD = lazy_pattern("[A-Za-z]{2,}")
# Latin words that are usual in Chinese text.
_LATIN_IN_CHINESE = frozenset(
    ["CD", "DVD", "OK", "AA", "QQ", "KTV", "UFO", "DNA", "AI", "CEO", "GPS", "VIP", "cm", "km", "kg"]
)
_HAN_OR_NUMERAL = lazy_pattern(f"[\u3005-\u3007{HAN_CHARACTERS}]")  # with 々 and 〇
_HAN = lazy_pattern(f"[{HAN_CHARACTERS}]")


class ChineseRules(LanguageRules):
    date_pattern = lazy_pattern(
        rf"(?<![0-9])(?:(?P<year>{_YEAR}) ?年 ?)?(?P<month>{_MONTH}) ?月 ?(?P<day>{_DAY}) ?[日号號]"
        rf"|(?<![0-9])(?P<its_year>{_YEAR}) ?年 ?(?P<its_month>{_MONTH}) ?月(?:份|(?![0-9]))"
    )
    month_pattern = lazy_pattern(rf"(?<![0-9]){_MONTH}(?= ?月)|(?:十[一二]?|[一二三四五六七八九])(?=月)")
    any_month = lazy_pattern("月")
    max_copied_share = 0.3  # lower than for English: a Han character in English text is conspicuous

    def is_name(self, span: Span, context: TextContext) -> bool:
        """Most Latin words in Chinese text are names; exceptions are single letters and units after a number."""
        word, before = span.of(context.text), context.text[span.start - 1 : span.start]
        return len(word) > 1 and word.lower() not in _NOT_NAMES and not before.isdigit()

    def is_foreign(self, word: str, context: TextContext) -> bool:
        return _HAN_OR_NUMERAL.match(word) is None

    def translatable_words(self, text: str) -> list[str]:
        return [word for word in WORD.findall(text) if _HAN.fullmatch(word)]

    def missing_dates(self, dates: Sequence[Date], translation: str) -> list[Date]:
        """Dates whose year or day has another role in the translation, as in 5月2024日."""
        if not dates or not has_han(translation):
            return []
        translation = numbers_to_digits(translation)

        def is_written(number: str, marks: str) -> bool:
            return not number or re.search(rf"(?<!\d){number} ?[{marks}]", translation) is not None

        return [date for date in dates if not (is_written(date.year, "年") and is_written(date.day, "日号號"))]

    def has_unknown_word(self, source: str, translation: str) -> bool:
        """Whether there is a Latin word that is not in the source."""
        words = _LATIN_WORD.findall(translation) if has_han(translation) else []
        return any(word.lower() not in source.lower() and word not in _LATIN_IN_CHINESE for word in words)

    def may_have_quantities(self, text: str) -> bool:
        return may_have_chinese_quantities(text)

    def find_quantities(self, text: str) -> tuple[Quantity, ...]:
        return find_chinese_quantities(text)

    def may_have_negations(self, text: str) -> bool:
        return may_have_chinese_negations(text)

    def find_negations(self, text: str) -> Negations:
        return find_chinese_negations(text)

    def read_month(self, month: str) -> int:
        return int(max(number_values(month)))

    def write_month(self, month: int) -> str:
        return str(month)

    def write_date(self, date: Date) -> str:
        year, day = f"{date.year}年" if date.year else "", f"{date.day}日" if date.day else ""
        return f"{year}{date.month}月{day}"


CHINESE = ChineseRules()
