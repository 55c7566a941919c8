"""What is wrong with a translation, as far as it can be told from source and translation alone, and what can be mended.

Four faults a reader must never see: an answer that is empty, one that runs in a loop, a copy of the source, and one
that has lost something to be kept. Three that are only worse than an alternative without them: a person who is not in
the source, a whole sentence for a single word, far too many words. What is mended in the text itself: quotation marks
without a partner, a number that became another one, the case of a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from regard.text.kept import find_kept, fixed, loose
from regard.text.numbers import digits_value, find_numbers, in_digits, values

Fault = Literal["empty", "loop", "copy", "lost", "invented", "sentence", "babble"]
GRAVE: tuple[Fault, ...] = ("empty", "loop", "copy", "lost")

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"(?:(?![{_HAN}])[^\W_])"
_UNIT = re.compile(rf"[{_HAN}]|{_LETTERS}+(?:['’]{_LETTERS}+)*|(?P<mark>[^\w\s]|_)(?P=mark)*")
_WORD = re.compile(rf"[{_HAN}]|{_LETTERS}+(?:['’]{_LETTERS}+)*")
_LATIN = re.compile("[A-Za-z0-9À-ɏ]")
_ANY_HAN = re.compile(f"[{_HAN}]")
_LONGEST_PERIOD = 12  # units of a loop
_MARKS_IN_A_ROW = 12  # more of one mark than this is a loop too
_PHRASE = 4  # units: a phrase that comes back again and again, with something between
_SENTENCE_END = re.compile(r"[.!?。！？…][\"”’」』)）]*$")
# Whom corpora of examples speak of; whole words, for tomorrow, the bottom and a summary are nobody.
_STOCK = (
    re.compile(rf"(?<!{_LETTERS})toms?(?!{_LETTERS})|汤姆|湯姆", re.IGNORECASE),
    re.compile(rf"(?<!{_LETTERS})marys?(?!{_LETTERS})|玛丽|玛莉|瑪麗|瑪莉", re.IGNORECASE),
)
_OPENING, _CLOSING = "“「『«《〈", "”」』»》〉"
_PARTNER = dict(zip(_CLOSING, _OPENING, strict=True))
_QUOTES = re.compile(f'["{_OPENING}{_CLOSING}]')
_SINGLE_QUOTES = re.compile(r"(?<!\w)['‘](?=\w)|(?<=[\w.,!?])['’](?!\w)")  # 'so', not isn't; double ones in Chinese


def faults(source: str, translation: str, chinese: bool) -> list[Fault]:
    """What is wrong, gravest first. `chinese` is whether the source is."""
    if not _visible(translation):
        return ["empty"] if _visible(source) else []
    found: list[Fault] = ["empty"] if _says_something(source) and not _says_something(translation) else []
    if is_loop(source, translation):
        found.append("loop")
    if is_copy(source, translation, chinese):
        found.append("copy")
    if lost(source, translation, chinese):
        found.append("lost")
    if invents_person(source, translation):
        found.append("invented")
    if is_sentence_for_word(source, translation):
        found.append("sentence")
    if is_babble(source, translation):
        found.append("babble")
    return found


def is_grave(found: Sequence[Fault]) -> bool:
    return any(fault in GRAVE for fault in found)


def _visible(text: str) -> bool:
    return bool(text.strip())


def _says_something(text: str) -> bool:
    """Whether there is more than marks."""
    return any(character.isalnum() for character in text)


# -- loops


def is_loop(source: str, translation: str) -> bool:
    """Whether words come again and again that do not in the source."""
    units, allowed = _units(translation), _allowed(source)
    return _next_loop(units, allowed) is not None or _third_phrase(units, allowed) is not None


def cut_loops(source: str, translation: str) -> str:
    """The translation with each loop gone through once."""
    allowed = _allowed(source)
    while (found := _next_loop(_units(translation), allowed)) is not None:
        start, stop = found
        translation = (translation[:start] + translation[stop:]).strip()
    while (at := _third_phrase(_units(translation), allowed)) is not None:
        translation = translation[:at].rstrip()
    return translation


def _units(text: str) -> list[re.Match[str]]:
    return list(_UNIT.finditer(text))


def _allowed(source: str) -> int:
    """How often something may come in a row, or a phrase in all: as often as in the source, and twice in any case."""
    units = [unit[0].lower() for unit in _units(source)]
    rows = [_longest_row(units, period) for period in range(1, _LONGEST_PERIOD + 1)]
    pairs = Counter(pairwise(units))
    marks = [len(unit) for unit in units if not unit[0].isalnum()]
    return max(2, *rows, *pairs.values(), *(mark // 3 for mark in marks))


def _longest_row(units: Sequence[str], period: int) -> int:
    longest = run = 0
    for at in range(period, len(units)):
        run = run + 1 if units[at] == units[at - period] else 0
        longest = max(longest, run)
    return longest // period + 1


def _next_loop(matches: Sequence[re.Match[str]], allowed: int) -> tuple[int, int] | None:
    """From where to where to cut, so that the first loop is gone through once."""
    units = [match[0].lower() for match in matches]
    for match in matches:
        if match["mark"] and len(match[0]) > max(_MARKS_IN_A_ROW, 3 * allowed):
            return match.start() + 3, match.end()
    for period in range(1, _LONGEST_PERIOD + 1):
        run = 0
        for at in range(period, len(units) + 1):
            if at < len(units) and units[at] == units[at - period]:
                run += 1
                continue
            if run // period + 1 > allowed:
                first = at - run  # the first unit that repeats another
                return matches[first - 1].end(), matches[first + run // period * period - 1].end()
            run = 0
    return None


def _third_phrase(matches: Sequence[re.Match[str]], allowed: int) -> int | None:
    """Where a phrase begins that has come too often already."""
    units = [match[0].lower() for match in matches]
    seen: Counter[tuple[str, ...]] = Counter()
    for at in range(len(units) - _PHRASE + 1):
        phrase = tuple(units[at : at + _PHRASE])
        seen[phrase] += 1
        if seen[phrase] > allowed:
            return matches[at].start()
    return None


# -- copies


def is_copy(source: str, translation: str, chinese: bool) -> bool:
    """Whether much of the translation is words of the source; names and numbers are the same in any language."""
    given = Counter(_translatable(source, chinese))
    written = [word.lower() for word in _WORD.findall(translation) if not word.isdigit()]
    copied = (Counter(written) & given).total()
    # A Chinese character in English stands out more than an English word in Chinese.
    return copied > (0.3 if chinese else 0.5) * len(written)


def drop_copied(source: str, translation: str, chinese: bool) -> str:
    """The translation without words that are the source's."""
    given = set(_translatable(source, chinese))
    kept = _WORD.sub(lambda match: "" if match[0].lower() in given else match[0], translation)
    return " ".join(kept.split())


def _translatable(source: str, chinese: bool) -> list[str]:
    """The words that ought to become others: Chinese ones; or English ones without a capital, and the first."""
    words = _WORD.findall(source)
    if chinese:
        return [word for word in words if _ANY_HAN.fullmatch(word)]
    shouted = source.isupper()  # no word is a name for its capitals where all have them
    return [
        word.lower() for at, word in enumerate(words) if word.islower() or ((at == 0 or shouted) and not word.isdigit())
    ]


# -- what is kept


def lost(source: str, translation: str, chinese: bool) -> list[str]:
    """The numbers and names of the source that are not in the translation; 37万 as 370,000."""
    source = in_digits(source)
    spans = loose(find_kept(source, chinese))
    if not spans:
        return []
    numbers = values(translation)
    missing = []
    for span in spans:
        what = span.of(source)
        on_the_hour = what == "00" and source[span.start - 1] in ":："
        if on_the_hour or _written(what).search(translation):
            continue
        if span.kind == "name" or not (_is_amount(what) and _same_amount(source, span.stop, what, numbers)):
            missing.append(what)
    return missing


def _written(what: str) -> re.Pattern[str]:
    """The number or the name, in any case, and not a part of another; a name may be in the plural."""
    if what[0].isdigit():
        return re.compile(rf"(?<![\d.]){re.escape(what)}(?!\d)")
    return re.compile(rf"(?<![A-Za-z]){re.escape(what)}(?=s?(?![A-Za-z]))", re.IGNORECASE)


def _is_amount(digits: str) -> bool:
    """Whether the value is what matters: not of a telephone number or an account."""
    return not (digits.startswith("0") and digits.isdigit() and len(digits) > 1) and (len(digits) < 10 or "," in digits)


def _same_amount(source: str, stop: int, digits: str, numbers: frozenset[float]) -> bool:
    """Whether the translation has the number, or what it makes together with what follows: 10 k, 15 点."""
    value, after = digits_value(digits), source[stop : stop + 9]
    meant = {value, *values(digits + after)}
    if after.startswith(("s", "'s", "’s")):
        meant.add(value % 100)  # the 1990s: 90年代
    elif after.startswith("年代"):
        meant |= {1900 + value, 2000 + value}
    elif after.startswith(("世纪", "世紀")):
        meant |= {number for number in numbers if 0 <= number - 100 * (value - 1) < 100}  # 20世纪30年代: the 1930s
    elif after[:1] in (":", "点", "时", "點") and value > 12:
        meant.add(value - 12)  # in the afternoon
    return not meant.isdisjoint(numbers)


def mend_numbers(source: str, translation: str, chinese: bool) -> str:
    """Numbers that became others are put right, where there are as many of the one as of the other."""
    missing = [what for what in lost(source, translation, chinese) if what[0].isdigit()]
    known = values(in_digits(source))
    strange = [number for number in find_numbers(translation) if number[2] not in known]
    if not missing or len(missing) != len(strange):
        return translation
    for what, (start, stop, _) in reversed(list(zip(missing, strange, strict=True))):
        translation = translation[:start] + what + translation[stop:]
    return translation


def mend_names(source: str, translation: str) -> str:
    """Latin names in Chinese have the case they had."""
    for span in loose(find_kept(source, chinese=True)):
        name = span.of(source)
        if span.kind == "name" and name not in _written(name).findall(translation):  # else "it" is not IT
            translation = _written(name).sub(lambda _, name=name: name, translation)  # type: ignore[misc]
    return translation


# -- quotation marks


def mend_quotes(source: str, translation: str) -> str:
    """Marks without a partner are left out, unless the source has such too; and all that the source does not have."""
    alone = _unpaired(translation)
    if len(alone) > len(_unpaired(source)):
        translation = _without_places(translation, alone)
    places = [at for at, _ in _quotes(translation)]
    if len(places) > max(2, 2 * (len(_quotes(source)) + len(_SINGLE_QUOTES.findall(source)))):
        translation = _without_places(translation, places)
    return translation


def _quotes(text: str) -> list[tuple[int, str]]:
    """Where the quotation marks are, and which; but those of code and addresses."""
    spans = fixed(find_kept(text, chinese=False)) if _QUOTES.search(text) else []
    found: list[tuple[int, str]] = []
    at = 0
    for start, stop in [*((span.start, span.stop) for span in spans), (len(text), len(text))]:
        found += [(match.start(), match[0]) for match in _QUOTES.finditer(text, at, start)]
        at = stop
    return found


def _unpaired(text: str) -> list[int]:
    """Where the quotation marks are that have no partner."""
    waiting: list[int] = []
    alone: list[int] = []
    straight: int | None = None
    for at, mark in _quotes(text):
        if mark == '"':
            straight = at if straight is None else None
        elif mark in _OPENING:
            waiting.append(at)
        elif waiting and text[waiting[-1]] == _PARTNER[mark]:
            waiting.pop()
        else:
            alone.append(at)
    return sorted([*alone, *waiting, *([] if straight is None else [straight])])


def _without_places(text: str, places: Sequence[int]) -> str:
    for at in reversed(places):
        between = " " if _LATIN.match(text[max(at - 1, 0) : at]) and _LATIN.match(text[at + 1 : at + 2]) else ""
        text = text[:at] + between + text[at + 1 :]
    return " ".join(text.split())


# -- ends


def ends_sentence(text: str) -> bool:
    return _SENTENCE_END.search(text) is not None


def without_end(text: str) -> str:
    """A piece of a sentence has no full stop of its own."""
    return text.rstrip(".!?。！？… ") or text


# -- what is only worse than another


def invents_person(source: str, translation: str) -> bool:
    return any(person.search(translation) and not person.search(source) for person in _STOCK)


def is_sentence_for_word(source: str, translation: str) -> bool:
    """Whether a word or two became a whole sentence."""
    length, written = _length(source), _length(translation)
    return length <= 2 and written > 3 and not ends_sentence(source) and ends_sentence(translation)


def is_babble(source: str, translation: str) -> bool:
    return _length(translation) > 3 * _length(source) + 6


def _length(text: str) -> float:
    """In words; of Chinese, about two characters each."""
    words = _WORD.findall(text)
    return sum(0.6 if _ANY_HAN.fullmatch(word) else 1 for word in words)
