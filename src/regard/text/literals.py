"""Literals: the parts of a text that are written the same in every language.

URLs, e-mail addresses, code, symbols and numbers. The same regular expression finds the candidates for names and
foreign words; whether they are such depends on the language of the text (`guards.entities`). Expects normalised text.
"""

from __future__ import annotations

from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS, LATIN_CHARACTERS
from regard.text.spans import Span, SpanKind, remove_spans

_ENDINGS = (
    "com|org|net|cn|io|edu|gov|info|tw|hk|uk|de|fr|jp|"
    "py|txt|md|json|toml|ya?ml|html?|css|js|ts|pdf|docx?|xlsx?|pptx?|csv|tsv|zip|gz|tar|png|jpe?g|gif|mp[34]|exe|sh|cpp|java"
)
_ASCII_WORD = "A-Za-z0-9_"
_URL_CHARACTERS = r"A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-"
_NOT_ASCII = r"[^\W\x00-\x7f]"  # a letter or digit
_HAN = f"\u3005-\u3007{HAN_CHARACTERS}"  # 々 and 〇 too
_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINED = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
_TERM = r"[A-Za-z0-9]++(?:\.\d++)?"
_DECIMAL = r"\d++(?:\.\d++)?"
_END = "(?![A-Za-z0-9_])"
_OPERATOR = " ?[-+*/×÷^−] ?"
_TERMS = rf"{_TERM}(?:{_OPERATOR}{_TERM}){{0,20}}"
_EXPONENT = "[⁺⁻]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+"
FRACTION_MARKS = "\u00bc-\u00be\u2150-\u215e\u2189"  # ½, ¾, ⅓
# Numbers whose notation small models do not know, each with its name as a group of `guards.notation`.
NOTATIONS = {
    "formula": rf"{_TERMS} ?= ?[-−]?{_TERMS}{_END}",  # 1 + 2 = 3
    "scientific": rf"{_DECIMAL}(?:[eE][-+−]?\d{{1,3}}|{_EXPONENT}| ?[×*] ?10(?:\^[-−]?\d{{1,3}}|{_EXPONENT})){_END}",
    "sum": rf"{_DECIMAL}(?: ?[+×÷*^] ?{_DECIMAL})+{_END}",  # 2×3
    "vulgar": rf"(?:\d++ ?)?[{FRACTION_MARKS}](?![0-9_])",
    "ratio": rf"(?!(?:[01]?\d|2[0-4])[:：∶][0-5]\d(?!\d)){_DECIMAL}[:：∶]{_DECIMAL}(?!:){_END}",  # 16:9, no time
    "point": r"\.\d++(?![0-9_])",  # .05
    "permille": rf"{_DECIMAL} ?‰(?![0-9_])",
    "grouped": r"\d{1,3}(?: \d{3})+(?:\.\d++)?(?![.,]?\d)",  # 1 234
}
_PATTERNS: tuple[tuple[SpanKind, str], ...] = (
    ("code", r"```[^`]+```|``[^`]+``|`[^`]+`"),
    # Letters outside ASCII belong to a URL after one of its punctuation marks: .../wiki/北京
    (
        "url",
        rf"(?:(?:https?|ftp)://|www\.)(?:[{_URL_CHARACTERS}]|(?<=[/=_#&.%-]){_NOT_ASCII}|(?<={_NOT_ASCII}){_NOT_ASCII})*"
        rf"(?:(?<=[A-Za-z0-9/#=&_~-])|(?<={_NOT_ASCII}))",
    ),
    ("email", rf"(?<![{_ASCII_WORD}.+-])[{_ASCII_WORD}][{_ASCII_WORD}.+-]*+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("code", r"(?<![A-Za-z])[A-Za-z]:\\[^\s<>:\"|?*]+"),  # C:\Users
    ("code", r"\{(?=[^{}]{0,99}\":)[^{}]{1,299}\}"),  # {"key": 1}
    ("code", r"</?[A-Za-z][^<>]{0,200}>|\{[A-Za-z_][A-Za-z0-9_.]*\}|%\([A-Za-z_]\w*\)[sdrf]"),  # tags, placeholders
    (
        "url",
        rf"(?<![{_ASCII_WORD}.-])(?:[A-Za-z0-9_-]+\.)+(?:{_ENDINGS})(?![{_ASCII_WORD}-])(?:/[{_URL_CHARACTERS}]*[A-Za-z0-9/])?",
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
    # 3.11.2, 192.168.0.1, 2024-01-05, 1/2, 138-0013-8000; but 3-5天 is two numbers and 10:30-11:30 is four
    ("code", rf"(?<![{_ASCII_WORD}.,])\d+(?:\.\d+){{2,}}(?![{_ASCII_WORD}])"),
    ("code", rf"(?<![{_ASCII_WORD}:])\d++(?:(?:[-/]\d++){{2,}}+(?![{_ASCII_WORD}])|[-/]\d++(?![-/:]\d|\w))"),
    ("code", r"[A-Za-z0-9]{46,}|(?P<repeated>[^\W\d_])(?P=repeated){39,}"),  # longer than any word
    (
        "notation",
        rf"(?:(?<![A-Za-z0-9_.,)])[-−])?(?<![A-Za-z0-9_.,:])(?:{'|'.join(NOTATIONS.values())})",
    ),
    ("symbol", rf"(?:[{_SYMBOL}][\U0001f3fb-\U0001f3ff]?[{_JOINED}]*)+|[0-9#*]\ufe0f?\u20e3"),
    (
        "foreign",
        rf"[{_HAN}]+|(?:(?![{LATIN_CHARACTERS}{_HAN}])[^\W\d_])+(?:[ '’-](?:(?![{LATIN_CHARACTERS}{_HAN}])[^\W\d_])+)*",
    ),
    # with its sign, currency and unit: -5°C, $10, 20 %
    (
        "number",
        r"(?:(?<![A-Za-z0-9_.,)])[-−]|[$€£¥])?(?<![A-Za-z0-9_.])(?<!\d,)\d[\d,]*(?:\.\d+)?(?: ?(?:°[CF]?|[℃℉%]))?",
    ),
    ("name", r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ0-9]*(?:[-'’.&+][A-Za-zÀ-ɏ0-9]+)*[+#]*"),
)
_SCAN = lazy_pattern("|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(_PATTERNS)))


@cached_by_text
def scan(text: str) -> tuple[Span, ...]:
    """All literals, words of a script other than Latin ("foreign") and Latin words ("name"), in order."""
    found = []
    for match in _SCAN.finditer(text):
        kind = _PATTERNS[int(str(match.lastgroup)[1:])][0]
        start, stop = match.span()
        if kind == "number":
            stop -= len(match[0]) - len(match[0].rstrip(","))  # a comma after a number is punctuation
        if kind == "url" and text[stop : stop + 1] == ")" and "(" in match[0].rpartition(")")[2]:
            stop += 1  # .../wiki/Mercury_(planet)
        found.append(Span(start, stop, kind))
    return tuple(found)


def find_literals(text: str) -> list[Span]:
    return [span for span in scan(text) if span.kind not in ("name", "foreign")]


@cached_by_text
def has_only_literals(text: str) -> bool:
    """Whether there is nothing to translate: no letter or digit outside the literals. ², ① and Ⅳ are neither."""
    return not any(one.isalpha() or one.isdecimal() for one in remove_spans(text, find_literals(text)))
