"""The rules of English."""

from __future__ import annotations

from collections.abc import Sequence

from regard.guards.english_quantities import find_english_quantities, may_have_english_quantities
from regard.guards.entities import find_entities
from regard.guards.language_rules import Date, LanguageRules, TextContext
from regard.guards.negations import Negations, find_english_negations, may_have_english_negations
from regard.guards.numbers import MONTHS
from regard.guards.quantities import Quantity
from regard.guards.words import WORD
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS
from regard.text.spans import Span

_MONTH = f"(?:{'|'.join(MONTHS)})"
_DAY, _YEAR, _ORDINAL = "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-9]|20)[0-9]{2}", "(?:st|nd|rd|th)?"
_HAN_OR_NUMERAL = lazy_pattern(f"[\u3005-\u3007{HAN_CHARACTERS}]")  # with 々 and 〇
# CA1234, COVID-19, v2.0.1; iPhone, JavaScript; NASA
_NAME = lazy_pattern(r"(?:[A-Z][A-Za-z]*-|[A-Za-z]+)\d[\w.-]*|(?!Ma?c)[A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]{2,6}s?")
# Abbreviations that Chinese writes differently, and words that may be in capitals for emphasis.
_NOT_NAME = lazy_pattern(
    "(?:TV|OK|AM|PM|ID|UK|US|USA|UN|EU|RMB|II|III|IV|AIDS|HIV|UFO|VCR|CV|AD|BC|IMF|GDP|GNP|ASAP|MR|MRS|DR|NO|NOT|YES|ALL|NOW|"
    "THIS|THAT|IS|ARE|MY|YOUR|THE|AND|ONE|WAY|WILL|STOP|VERY|NEVER|EVER|ONLY|ME|YOU|HE|SHE|WE|WHAT|WHO|WHY|HOW|IT|DO|DID|HAVE|"
    "CAN|MUST|ANYONE|BEFORE|REALLY|LOVE|HATE|SO|TOO|GO|NEED|WANT|ALWAYS|HERE|THERE|SAME|GOOD|BAD|NEW|BIG|FREE|HELP)s?"
)


class EnglishRules(LanguageRules):
    date_pattern = lazy_pattern(
        rf"\b(?P<month>{_MONTH}) (?P<day>{_DAY}){_ORDINAL}\b(?:,? (?P<year>{_YEAR})\b)?"
        rf"|\b(?:the )?(?P<early_day>{_DAY}){_ORDINAL} (?:of )?(?P<its_month>{_MONTH})\b(?:,? (?P<its_year>{_YEAR})\b)?"
        rf"|\b(?P<lone_month>{_MONTH}),? (?:of )?(?P<lone_year>{_YEAR})\b"
    )
    # May is a month only before a number, or after "in" or "of"; elsewhere it may be a verb.
    month_pattern = lazy_pattern(rf"\b(?!May\b){_MONTH}\b|\bMay(?= \d)|(?<=\b[Ii]n )May\b|(?<=\bof )May\b")
    any_month = lazy_pattern(_MONTH)
    max_copied_share = 0.5

    def is_name(self, span: Span, context: TextContext) -> bool:
        """Whether a word is an abbreviation or the name of a product: NASA, iPhone, CO2."""
        word = span.of(context.text)
        if word[1:].islower() and word.isalpha():
            return False
        return bool(_NAME.fullmatch(word)) and not _NOT_NAME.fullmatch(word) and not context.all_capitals

    def trim_name(self, name: str) -> str:
        return name[:-1] if name[:-1].isupper() and name.endswith("s") else name  # CDs

    def is_foreign(self, word: str, context: TextContext) -> bool:
        # A Han character counts as a word. In a text with few Latin words, it is the text that is not in English.
        return context.latin_words > (len(word) if _HAN_OR_NUMERAL.match(word) else len(word.split()))

    def translatable_words(self, text: str) -> list[str]:
        """Words in lower case, and the first one; all words if the text is all in capitals. Names are left out."""
        names = {span.of(text) for span in find_entities(text, self) if span.kind == "name"}
        all_capitals = text.isupper()
        return [
            word.lower()
            for at, word in enumerate(WORD.findall(text))
            if word not in names and (word.islower() or ((at == 0 or all_capitals) and not word.isdigit()))
        ]

    def missing_dates(self, dates: Sequence[Date], translation: str) -> list[Date]:
        return []  # in English a year cannot be mistaken for a day; the check of numbers is enough

    def has_unknown_word(self, source: str, translation: str) -> bool:
        return False  # any Latin word may be a translation

    def may_have_quantities(self, text: str) -> bool:
        return may_have_english_quantities(text)

    def find_quantities(self, text: str) -> tuple[Quantity, ...]:
        return find_english_quantities(text)

    def may_have_negations(self, text: str) -> bool:
        return may_have_english_negations(text)

    def find_negations(self, text: str) -> Negations:
        return find_english_negations(text)

    def read_month(self, month: str) -> int:
        return MONTHS.index(month) + 1

    def write_month(self, month: int) -> str:
        return MONTHS[month - 1]

    def write_date(self, date: Date) -> str:
        month = self.write_month(date.month)
        if not date.day:
            return f"{month} {date.year}"
        return f"{month} {date.day}" + (f", {date.year}" if date.year else "")


ENGLISH = EnglishRules()
