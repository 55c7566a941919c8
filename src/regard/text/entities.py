"""What a translation keeps exactly: addresses, code, numbers, symbols, words of another script, Latin names in Chinese
and names of products and the like in English (NASA, iPhone, CO2).

*Fixed* spans are never a model's business: addresses, code, dates in digits, emoji. *Loose* ones a model may write in
its own way (3 → three, 1万 → 10,000; a name in other letters), so they are looked for in what it wrote (`guards`).
All of it works on normalised text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["url", "email", "code", "symbol", "foreign", "number", "name", "date"]
FIXED: tuple[Kind, ...] = ("url", "email", "code", "symbol", "foreign")

_ENDINGS = (
    "com|org|net|cn|io|edu|gov|info|tw|hk|uk|de|fr|jp|"
    "py|txt|md|json|toml|ya?ml|html?|css|js|ts|pdf|docx?|xlsx?|pptx?|csv|tsv|zip|gz|tar|png|jpe?g|gif|mp[34]|exe|sh|cpp|java"
)
_ASCII_WORD = "A-Za-z0-9_"
_ADDRESS = r"A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-"
_NOT_ASCII = r"[^\W\x00-\x7f]"  # a letter or digit
_LATIN = "A-Za-zÀ-ɏ\u02b0-\u02ff\u1e00-\u1eff"
HAN_CHARACTERS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = f"\u3005-\u3007{HAN_CHARACTERS}"  # 々 and 〇 too
_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINED = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("code", r"```[^`]+```|``[^`]+``|`[^`]+`"),
    # .../wiki/北京 too: other letters belong to it after one of its marks
    (
        "url",
        rf"(?:(?:https?|ftp)://|www\.)(?:[{_ADDRESS}]|(?<=[/=_#&.%-]){_NOT_ASCII}|(?<={_NOT_ASCII}){_NOT_ASCII})*"
        rf"(?:(?<=[A-Za-z0-9/#=&_~-])|(?<={_NOT_ASCII}))",
    ),
    ("email", rf"(?<![{_ASCII_WORD}.+-])[{_ASCII_WORD}][{_ASCII_WORD}.+-]*+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("code", r"(?<![A-Za-z])[A-Za-z]:\\[^\s<>:\"|?*]+"),  # C:\Users
    ("code", r"\{(?=[^{}]{0,99}\":)[^{}]{1,299}\}"),  # {"key": 1}
    ("code", r"</?[A-Za-z][^<>]{0,200}>|\{[A-Za-z_][A-Za-z0-9_.]*\}|%\([A-Za-z_]\w*\)[sdrf]"),  # tags, placeholders
    (
        "url",
        rf"(?<![{_ASCII_WORD}.-])(?:[A-Za-z0-9_-]+\.)+(?:{_ENDINGS})(?![{_ASCII_WORD}-])(?:/[{_ADDRESS}]*[A-Za-z0-9/])?",
    ),
    (
        "code",
        rf"(?<![{_ASCII_WORD}.])[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\((?!e?s\))[ -'*-~]{{0,299}}\)",
    ),  # call(), call(1, "x"); but book(s)
    ("code", r"(?<![A-Za-z])(?:SELECT|DELETE|INSERT|UPDATE) [ -~]{0,99}?(?:FROM|INTO|SET) [ -~]{0,299}?(?:;|$)"),
    ("code", rf"(?<![{_ASCII_WORD}])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|__[a-z]+__"),  # snake_case
    (
        "code",
        rf"(?<![{_ASCII_WORD}-])--[a-z][a-z0-9-]+|(?<![{_ASCII_WORD}:/])~?/(?:[A-Za-z0-9._-]+/)+[A-Za-z0-9._-]*|(?<![\w./])/(?:bin|dev|etc|home|opt|proc|tmp|usr|var)(?![\w/])",
    ),
    ("code", rf"(?<![{_ASCII_WORD}])[#@][A-Za-z][{_ASCII_WORD}]+"),  # handles and tags
    # 3.11.2, 192.168.0.1, 2024-01-05, 1/2, 138-0013-8000; but 3-5天 is two numbers, 10:30-11:30 four
    ("code", rf"(?<![{_ASCII_WORD}.,])\d+(?:\.\d+){{2,}}(?![{_ASCII_WORD}])"),
    ("code", rf"(?<![{_ASCII_WORD}:])\d++(?:(?:[-/]\d++){{2,}}+(?![{_ASCII_WORD}])|[-/]\d++(?![-/:]\d|\w))"),
    ("code", r"[A-Za-z0-9]{46,}|(?P<repeated>[^\W\d_])(?P=repeated){39,}"),  # no word is so long
    ("symbol", rf"(?:[{_SYMBOL}][\U0001f3fb-\U0001f3ff]?[{_JOINED}]*)+|[0-9#*]\ufe0f?\u20e3"),
    ("foreign", rf"[{_HAN}]+|(?:(?![{_LATIN}{_HAN}])[^\W\d_])+(?:[ '’-](?:(?![{_LATIN}{_HAN}])[^\W\d_])+)*"),
    # with what makes it another: -5°C, $10, 20 %
    ("number", r"(?:(?<![A-Za-z0-9_.,)])-|[$€£¥])?(?<![A-Za-z0-9_.,])\d[\d,]*(?:\.\d+)?(?: ?(?:°[CF]?|[℃℉%]))?"),
    ("name", r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ0-9]*(?:[-'’.&+][A-Za-zÀ-ɏ0-9]+)*[+#]*"),
)
_FIND = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(_PATTERNS)))
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_LATIN_WORD = re.compile(f"[{_LATIN}]+")
_ANY_HAN = re.compile(f"[{_HAN}]")
_NOT_NAMES = frozenset(["ok", "am", "pm"])  # 卡拉OK is karaoke
# CA1234, COVID-19, v2.0.1; iPhone, JavaScript; NASA
_CODE_NAME = re.compile(r"(?:[A-Z][A-Za-z]*-|[A-Za-z]+)\d[\w.-]*|(?!Ma?c)[A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]{2,6}s?")
# Abbreviations that have another name in Chinese, and words that may be shouted.
_NO_CODE_NAME = re.compile(
    "(?:TV|OK|AM|PM|ID|UK|US|USA|UN|EU|RMB|II|III|IV|AIDS|HIV|UFO|VCR|CV|AD|BC|IMF|GDP|GNP|ASAP|MR|MRS|DR|NO|NOT|YES|ALL|NOW|"
    "THIS|THAT|IS|ARE|MY|YOUR|THE|AND|ONE|WAY|WILL|STOP|VERY|NEVER|EVER|ONLY|ME|YOU|HE|SHE|WE|WHAT|WHO|WHY|HOW|IT|DO|DID|HAVE|"
    "CAN|MUST|ANYONE|BEFORE|REALLY|LOVE|HATE|SO|TOO|GO|NEED|WANT|ALWAYS|HERE|THERE|SAME|GOOD|BAD|NEW|BIG|FREE|HELP)s?"
)


@dataclass(frozen=True)
class Span:
    start: int
    stop: int
    kind: Kind

    def of(self, text: str) -> str:
        return text[self.start : self.stop]

    def overlaps(self, other: Span) -> bool:
        return self.start < other.stop and other.start < self.stop


def find_kept(text: str, chinese: bool) -> list[Span]:
    """The spans, in order; Latin words are names where the text around them is Chinese."""
    found = []
    around = Surroundings(text, chinese)
    for match in _FIND.finditer(text):
        kind = _PATTERNS[int(str(match.lastgroup)[1:])][0]
        start, stop = match.span()
        if kind == "name":
            if not around.has_name(match):
                continue
            stop -= not chinese and match[0][:-1].isupper() and match[0].endswith("s")  # CDs
        if kind == "foreign" and not around.has_foreign(match[0]):
            continue
        if kind == "number":
            stop -= len(match[0]) - len(match[0].rstrip(","))  # a comma after it is not of it
        if kind == "url" and text[stop : stop + 1] == ")" and "(" in match[0].rpartition(")")[2]:
            stop += 1  # .../wiki/Mercury_(planet)
        found.append(Span(start, stop, kind))
    return found


@dataclass
class Surroundings:
    """What a word is in a text."""

    text: str
    chinese: bool

    @cached_property
    def shouted(self) -> bool:
        return self.text.isupper() and " " in self.text.strip()

    @cached_property
    def latin_words(self) -> int:
        return len(_LATIN_WORD.findall(self.text))

    def has_name(self, match: re.Match[str]) -> bool:
        """Whether a Latin word is a name to be kept. In Chinese most are, but for units after numbers and the like."""
        word = match[0]
        if self.chinese:
            before = self.text[match.start() - 1 : match.start()]
            return len(word) > 1 and word.lower() not in _NOT_NAMES and not before.isdigit()
        return bool(_CODE_NAME.fullmatch(word)) and not _NO_CODE_NAME.fullmatch(word) and not self.shouted

    def has_foreign(self, word: str) -> bool:
        """Whether letters that are not Latin are those of another language than the text's."""
        han = _ANY_HAN.match(word) is not None
        if self.chinese:
            return not han
        # A Han character says about as much as a word; and without many Latin words the text is of another language.
        return self.latin_words > (len(word) if han else len(word.split()))


def fixed(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.kind in FIXED]


def loose(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.kind not in FIXED]


def without(text: str, spans: Sequence[Span]) -> str:
    """The text with a space in the place of each span."""
    parts, at = [], 0
    for span in spans:
        parts.append(text[at : span.start])
        at = span.stop
    return " ".join([*parts, text[at:]])


def change_at(text: str, spans: Sequence[Span], change: Callable[[str], str]) -> str:
    """The text with something done to the spans."""
    for span in reversed(spans):
        text = text[: span.start] + change(span.of(text)) + text[span.stop :]
    return text


def change_between(text: str, spans: Sequence[Span], change: Callable[[str], str]) -> str:
    """The text with something done to what is between the spans."""
    parts, at = [], 0
    for span in spans:
        parts += [change(text[at : span.start]), span.of(text)]
        at = span.stop
    return "".join([*parts, change(text[at:])])


def is_all_kept(text: str) -> bool:
    """Whether there is nothing to translate: no letter but in what is kept whatever the language."""
    spans = [span for span in find_kept(text, chinese=False) if span.kind not in ("name", "foreign")]
    return _LETTER_OR_DIGIT.search(without(text, spans)) is None
