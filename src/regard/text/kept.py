"""What a translation keeps exactly: addresses, code, numbers, symbols, and Latin names in Chinese.

*Fixed* spans are never a model's business: addresses, code, dates in digits, emoji. *Loose* ones a model may write in
its own way (3 → three, 1万 → 10,000; a name in other letters), so they are looked for in what it wrote (`guards`).
All of it works on normalised text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["url", "email", "code", "symbol", "number", "name"]
FIXED: tuple[Kind, ...] = ("url", "email", "code", "symbol")

_ENDINGS = (
    "com|org|net|cn|io|edu|gov|info|tw|hk|uk|de|fr|jp|"
    "py|txt|md|json|toml|ya?ml|html?|css|js|ts|pdf|docx?|xlsx?|pptx?|csv|tsv|zip|gz|tar|png|jpe?g|gif|mp[34]|exe|sh|cpp|java"
)
_ASCII_WORD = "A-Za-z0-9_"
_ADDRESS = r"A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-"
_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINED = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("code", r"```[^`]+```|``[^`]+``|`[^`]+`"),
    ("url", rf"(?:(?:https?|ftp)://|www\.)[{_ADDRESS}]*[A-Za-z0-9/#=&_~-]"),
    ("email", rf"(?<![{_ASCII_WORD}.+-])[{_ASCII_WORD}][{_ASCII_WORD}.+-]*+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("code", r"</?[A-Za-z][^<>]{0,200}>|\{[A-Za-z_][A-Za-z0-9_.]*\}|%\([A-Za-z_]\w*\)[sdrf]"),  # tags, placeholders
    (
        "url",
        rf"(?<![{_ASCII_WORD}.-])(?:[A-Za-z0-9_-]+\.)+(?:{_ENDINGS})(?![{_ASCII_WORD}-])(?:/[{_ADDRESS}]*[A-Za-z0-9/])?",
    ),
    ("code", rf"(?<![{_ASCII_WORD}.])[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\(\)"),  # call()
    ("code", rf"(?<![{_ASCII_WORD}])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|__[a-z]+__"),  # snake_case
    ("code", rf"(?<![{_ASCII_WORD}-])--[a-z][a-z0-9-]+|(?<![{_ASCII_WORD}:/])~?/(?:[A-Za-z0-9._-]+/)+[A-Za-z0-9._-]*"),
    ("code", rf"(?<![{_ASCII_WORD}])[#@][A-Za-z][{_ASCII_WORD}]+"),  # handles and tags
    # 3.11.2, 192.168.0.1, 2024-01-05, 1/2, 138-0013-8000; but 3-5天 is two numbers, 10:30-11:30 four
    ("code", rf"(?<![{_ASCII_WORD}.,])\d+(?:\.\d+){{2,}}(?![{_ASCII_WORD}])"),
    ("code", rf"(?<![{_ASCII_WORD}:])\d++(?:(?:[-/]\d++){{2,}}+(?![{_ASCII_WORD}])|[-/]\d++(?![-/:]\d|\w))"),
    ("symbol", rf"(?:[{_SYMBOL}][\U0001f3fb-\U0001f3ff]?[{_JOINED}]*)+|[0-9#*]\ufe0f?\u20e3"),
    ("number", r"(?<![A-Za-z0-9_.,])\d[\d,]*(?:\.\d+)?"),
    ("name", r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ0-9]*(?:[-'’.&+][A-Za-zÀ-ɏ0-9]+)*[+#]*"),
)
_FIND = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(_PATTERNS)))
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_NOT_NAMES = frozenset(["ok", "am", "pm"])  # 卡拉OK is karaoke


@dataclass(frozen=True)
class Span:
    start: int
    stop: int
    kind: Kind

    def of(self, text: str) -> str:
        return text[self.start : self.stop]


def find_kept(text: str, chinese: bool) -> list[Span]:
    """The spans, in order; Latin words are names where the text around them is Chinese."""
    found = []
    for match in _FIND.finditer(text):
        kind = _PATTERNS[int(str(match.lastgroup)[1:])][0]
        start, stop = match.span()
        if kind == "name" and not (chinese and is_name(match[0], text[start - 1 : start])):
            continue
        if kind == "number":
            stop -= len(match[0]) - len(match[0].rstrip(","))  # a comma after it is not of it
        if kind == "url" and text[stop : stop + 1] == ")" and "(" in match[0].rpartition(")")[2]:
            stop += 1  # .../wiki/Mercury_(planet)
        found.append(Span(start, stop, kind))
    return found


def is_name(word: str, before: str) -> bool:
    """Whether a Latin word in Chinese is to be kept; a unit after a number is not."""
    return len(word) > 1 and word.lower() not in _NOT_NAMES and not before.isdigit()


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


def change_between(text: str, spans: Sequence[Span], change: Callable[[str], str]) -> str:
    """The text with something done to what is between the spans."""
    parts, at = [], 0
    for span in spans:
        parts += [change(text[at : span.start]), span.of(text)]
        at = span.stop
    return "".join([*parts, change(text[at:])])


def is_all_kept(text: str) -> bool:
    """Whether there is nothing to translate: no letter but in what is kept whatever the language."""
    spans = [span for span in find_kept(text, chinese=False) if span.kind != "name"]
    return _LETTER_OR_DIGIT.search(without(text, spans)) is None
