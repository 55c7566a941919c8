"""What is wrong with a translation, as far as it can be told from source and translation alone, and what can be mended.

Four faults a reader must never see: an answer that is empty, one that runs in a loop, a copy of the source, and one
that has lost something to be kept. Three that are only worse than an alternative without them: a person who is not in
the source, a whole sentence for a single word, far too many words. What is mended in the text itself: quotation marks
without a partner, a number that became another one, the case of a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from regard.guards.dates import find_dates, other_way
from regard.guards.numbers import digits_value, find_numbers, in_digits, short_values, values
from regard.text.entities import HAN_CHARACTERS, Span, find_kept, fixed, loose
from regard.text.sentences import space_between

Fault = Literal["empty", "loop", "copy", "lost", "invented", "sentence", "babble"]
GRAVE: tuple[Fault, ...] = ("empty", "loop", "copy", "lost")

_LETTERS = rf"(?:(?![{HAN_CHARACTERS}])[^\W_])"
_UNIT = re.compile(rf"[{HAN_CHARACTERS}]|{_LETTERS}+(?:['’]{_LETTERS}+)*|(?P<mark>[^\w\s]|_)(?P=mark)*")
_WORD = re.compile(rf"[{HAN_CHARACTERS}]|{_LETTERS}+(?:['’]{_LETTERS}+)*")
_ANY_HAN = re.compile(f"[{HAN_CHARACTERS}]")
_LATIN_WORD = re.compile("[A-Za-z]{2,}")
_LATIN_IN_CHINESE = frozenset(
    ["CD", "DVD", "OK", "AA", "QQ", "KTV", "UFO", "DNA", "AI", "CEO", "GPS", "VIP", "cm", "km", "kg"]
)
_LONG_WORD = re.compile("[A-Za-z]{26,}")  # a loop of letters
_LONGEST_PERIOD = 12  # units of a loop
_MARKS_IN_A_ROW = 12  # more of one mark than this is a loop too
_PHRASE = 4  # units: a phrase that comes back again and again, with something between
_SENTENCE_END = re.compile(r"[.!?。！？…][\"”’」』)）]*$")
_CAPITAL_FIRST = re.compile(
    "(?:A|An|The|This|That|These|Those|There|Here|He|She|It|We|You|They|My|Your|His|Her|Its|Our|Their|Who|What|When|Where|"
    "Why|How|Which|If|In|On|At|To|For|From|With|Of|And|But|Or|So|Because|As|After|Before|Then|Do|Does|Did|Is|Are|Was|Were|"
    "Can|Could|Will|Would|Should|Must|Have|Has|Had|Please|Not|No|Yes|One|Some|All|Let)(?![A-Za-z])"
)
# Whom corpora of examples speak of; whole words, for tomorrow, the bottom and a summary are nobody.
_STOCK = (
    re.compile(rf"(?<!{_LETTERS})toms?(?!{_LETTERS})|汤姆|湯姆", re.IGNORECASE),
    re.compile(rf"(?<!{_LETTERS})marys?(?!{_LETTERS})|玛丽|玛莉|瑪麗|瑪莉", re.IGNORECASE),
)
_DATE_MARKS = {"年": "年", "日": "日号號"}
_BARE = re.compile(r"\d[\d,]*(?:\.\d+)?")
# What is before or after the digits, and what may stand for it.
_SIGNS = (
    (re.compile("[$€£¥]"), re.compile("[$€£¥元块塊镑鎊钱錢]|dollar|euro|pound|yuan|yen|buck|rmb|cent", re.IGNORECASE)),
    (re.compile("^-"), re.compile(r"[-−–]\s?\d|负|負|零下|minus|negative|below", re.IGNORECASE)),
    (re.compile("[°℃℉]"), re.compile("[°℃℉度]|degree|celsius|fahrenheit", re.IGNORECASE)),
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
    if invents_name(source, translation, chinese):
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
    if any(word not in source for word in _LONG_WORD.findall(translation)):
        return True
    return _next_loop(units, allowed) is not None or _third_phrase(units, allowed) is not None


def cut_loops(source: str, translation: str) -> str:
    """The translation with each loop gone through once."""
    allowed = _allowed(source)
    translation = _LONG_WORD.sub(lambda match: match[0] if match[0] in source else "", translation).strip()
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
    names = {span.of(source) for span in find_kept(source, chinese) if span.kind == "name"}
    return [
        word.lower()
        for at, word in enumerate(words)
        if word not in names and (word.islower() or ((at == 0 or shouted) and not word.isdigit()))
    ]


# -- what is kept


def lost(source: str, translation: str, chinese: bool) -> list[str]:
    """The numbers and names of the source that are not in the translation; 37万 as 370,000."""
    source = in_digits(source)
    numbers = values(translation)
    missing = list(_lost_dates(source, translation, chinese))
    for span in loose(find_kept(source, chinese)):
        what = span.of(source)
        if _written(what).search(translation) or (what == "00" and source[span.start - 1] in ":："):  # on the hour
            continue
        if span.kind == "name" or not _same_number(source, span, numbers) or _lost_sign(what, translation):
            missing.append(what)
    return missing


def _lost_dates(source: str, translation: str, chinese: bool) -> Iterator[str]:
    """Dates of which the day or the year is not one in the translation: 5月2024日."""
    if chinese or not _ANY_HAN.search(translation):
        return
    translation = in_digits(translation)
    for span in find_dates(source, chinese):
        wanted = re.findall(r"(\d+)([年日])", other_way(span.of(source), chinese))
        if not all(re.search(rf"(?<!\d){number} ?[{_DATE_MARKS[mark]}]", translation) for number, mark in wanted):
            yield span.of(source)


def _written(what: str) -> re.Pattern[str]:
    """The number or the name, in any case, and not a part of another; a name may be in the plural."""
    if not what[0].isalpha():
        return re.compile(rf"(?<![\d.]){re.escape(what)}(?!\d)")
    return re.compile(rf"(?<![A-Za-z]){re.escape(what)}(?=s?(?![A-Za-z]))", re.IGNORECASE)


def _same_number(source: str, span: Span, numbers: frozenset[float]) -> bool:
    found = _BARE.search(span.of(source))
    assert found is not None
    after = source[span.start + found.end() : span.start + found.end() + 3]
    return _is_amount(found[0]) and _same_amount(found[0], after, numbers)


def _lost_sign(what: str, translation: str) -> bool:
    """Whether a number is there without what made it one of money, of degrees, or less than nothing."""
    return any(sign.search(what) and not said.search(translation) for sign, said in _SIGNS)


def _is_amount(digits: str) -> bool:
    """Whether the value is what matters: not of a telephone number or an account."""
    return not (digits.startswith("0") and digits.isdigit() and len(digits) > 1) and (len(digits) < 10 or "," in digits)


def _same_amount(digits: str, after: str, numbers: frozenset[float]) -> bool:
    """Whether the translation has the number, or what it makes together with what follows: 10 k, 15 点."""
    value = digits_value(digits)
    meant = {value, *short_values(value, after)}
    if after.startswith(("s", "'s", "’s")):
        meant.add(value % 100)  # the 1990s: 90年代
    elif after.startswith("年代"):
        meant |= {1900 + value, 2000 + value}
    elif after.startswith(("世纪", "世紀")):
        meant |= {number for number in numbers if 0 <= number - 100 * (value - 1) < 100}  # 20世纪30年代: the 1930s
    elif after[:1] in (":", "点", "时", "點") and value > 12:
        meant.add(value - 12)  # in the afternoon
    elif after.lstrip().startswith("p"):
        meant.add(value + 12)
    return not meant.isdisjoint(numbers)


def mend_numbers(source: str, translation: str, chinese: bool) -> str:
    """Numbers that became others are put right, where there are as many of the one as of the other."""
    missing = [what for what in lost(source, translation, chinese) if _BARE.search(what)]
    for what in missing:
        if what[0] in "$€£¥":  # and so is money that is not called so
            translation = _written(what[1:]).sub(lambda _, what=what: what, translation, count=1)  # type: ignore[misc]
    missing = [what for what in missing if what[0].isdigit() and _BARE.fullmatch(what.rstrip("%℃℉°CF "))]
    known = values(in_digits(source))
    strange = [number for number in find_numbers(translation) if number[2] not in known]
    if not missing or len(missing) != len(strange):
        return translation
    for what, (start, stop, _) in reversed(list(zip(missing, strange, strict=True))):
        translation = translation[:start] + _BARE.findall(what)[0] + translation[stop:]
    return translation


def mend_names(source: str, translation: str, chinese: bool) -> str:
    """Latin names in Chinese, and those of products and the like, have the case they had."""
    for span in loose(find_kept(source, chinese)):
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
    is_open = False
    for at, mark in _quotes(text):
        opens = _opens(text, at, is_open) if mark == '"' else mark in _OPENING
        is_open = opens if mark == '"' else is_open
        if opens:
            waiting.append(at)
        elif waiting and text[waiting[-1]] == _PARTNER.get(mark, mark):
            waiting.pop()
        else:
            alone.append(at)
    return sorted([*alone, *waiting])


def _opens(text: str, at: int, is_open: bool) -> bool:
    """Whether a straight quotation mark opens, by what is around it; else by the one before."""
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if not after.strip() and before.strip():
        return False
    if not before.strip() and after.strip():
        return True
    return not is_open


def _without_places(text: str, places: Sequence[int]) -> str:
    for at in reversed(places):
        before, after = text[:at], text[at + 1 :]
        text = before + space_between(before, after) + after
    return " ".join(text.split())


# -- ends


def ends_sentence(text: str) -> bool:
    return _SENTENCE_END.search(text) is not None


def without_end(text: str) -> str:
    """A piece of a sentence has no full stop of its own."""
    return text.rstrip(".!?。！？… ") or text


def in_mid_sentence(text: str) -> str:
    """With a small letter, where it begins with a word that has a capital only at the beginning of a sentence."""
    return text[0].lower() + text[1:] if _CAPITAL_FIRST.match(text) else text


# -- what is only worse than another


def invents_name(source: str, translation: str, chinese: bool) -> bool:
    """Whether there is somebody who is not in the source, or a Latin word in Chinese that is not."""
    if any(person.search(translation) and not person.search(source) for person in _STOCK):
        return True
    latin = _LATIN_WORD.findall(translation) if not chinese and _ANY_HAN.search(translation) else []
    return any(word.lower() not in source.lower() and word not in _LATIN_IN_CHINESE for word in latin)


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
