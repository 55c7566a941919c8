"""The quantities of an English text: in digits and words, with units, currencies, signs and times of day."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from regard.guards.notation import NEAR, Number, find_notations, has_numeric, hide_literals, read_money
from regard.guards.numbers import CARDINALS, MONTHS, english_numbers
from regard.guards.quantities import Quantity, Reading, mark_ranges, negative, reading
from regard.guards.units import AMOUNT_SYMBOL, AMOUNT_WORDS, ENGLISH_UNIT, TIMES, english_units
from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern

_ORDINALS = ("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth")
_MORE_ORDINALS = ("thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth")
_ORDINAL_VALUES = {word: float(value) for value, word in enumerate((*_ORDINALS, *_MORE_ORDINALS), start=3)}
_ORDINAL_VALUES |= {"twentieth": 20.0, "thirtieth": 30.0, "hundredth": 100.0, "thousandth": 1000.0, "millionth": 1e6}
# Words that may stand for a number of the source, but need not.
_POSSIBLE: dict[str, tuple[float, ...]] = {
    "a": (1,),
    "an": (1,),
    "one": (1,),
    "first": (1,),
    "once": (1,),
    "zero": (0,),
}
_POSSIBLE |= {"another": (1,), "each": (1,), "every": (1,), "per": (1,), "single": (1,), "naught": (0,)}
_POSSIBLE |= {"second": (2,), "twice": (2,), "double": (2,), "twin": (2,), "twins": (2,), "both": (2,), "couple": (2,)}
_POSSIBLE |= {"pair": (2,), "either": (2,), "neither": (2,), "two": (2,), "half": (0.5,), "quarter": (0.25, 15)}
_POSSIBLE |= {
    "thrice": (3,),
    "triple": (3,),
    "tripled": (3,),
    "doubled": (2,),
    "halved": (0.5,),
    "decade": (10,),
    "dozen": (12,),
    "fortnight": (14, 2),
    "century": (100,),
}
_POSSIBLE |= {
    "dozens": (12,),
    "tens": (10,),
    "last": (1,),
    "halves": (0.5,),
    "halfway": (0.5,),
    "noon": (12,),
    "twos": (2,),
}
_POSSIBLE |= {"hundred": (100,), "hundreds": (100,), "thousand": (1000,), "thousands": (1000,), "million": (1e6,)}
_POSSIBLE |= {"millions": (1e6,), "billion": (1e9,), "billions": (1e9,), "quarters": (0.25,), "centuries": (100,)}
_POSSIBLE |= {"millionaire": (1e6,), "weekly": (1,), "quadruple": (4,), "teens": (10,), "decades": (10,)}
_CLOCK_WORDS = {"noon": 720.0, "midday": 720.0, "midnight": 0.0}
_TIME_UNITS = {"hourly": ("time", 3600.0), "daily": ("time", 86400.0), "overnight": ("time", 86400.0)}
_WORD = lazy_pattern(r"(?<![A-Za-z])[A-Za-z]+(?![A-Za-z])")
_SCALE = lazy_pattern(
    r"[ -]?(?:(?P<word>hundred|thousand|million|billion|trillion|dozen)|(?P<letter>[kKmM]|"
    r"bn)(?![A-Za-z]))(?![^\W\d_])"
)
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12}
_SCALES |= {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "bn": 1e9}
_POINT = lazy_pattern(r" point((?: (?:zero|oh|one|two|three|four|five|six|seven|eight|nine)(?![a-z]))+)", re.IGNORECASE)
_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7}
_PARTS |= {"eighth": 8, "ninth": 9, "tenth": 10, "hundredth": 100, "thousandth": 1000, "millionth": 10**6}
_COUNTED = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")  # two thirds
_FRACTION = lazy_pattern(rf"[ -]({'|'.join(_PARTS)})s?(?![A-Za-z])", re.IGNORECASE)
_AND_A_PART = lazy_pattern(r" and (?:a half|one half|a quarter|one quarter|three quarters)(?![A-Za-z])", re.IGNORECASE)
_TIME = lazy_pattern(
    r"\d:\d\d|o['’ ]?clock|\d ?[ap]\.?m|"
    r"(?<![A-Za-z])at (?:\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
)
_PERIOD = lazy_pattern(r" ?(?P<half>[ap])\.? ?m(?![A-Za-z])\.?", re.IGNORECASE)
_OCLOCK = lazy_pattern(r" ?o['’ ]?clock", re.IGNORECASE)
_OF_THE_DAY = lazy_pattern(
    r"(?<![A-Za-z])(?:(?P<am>morning)|(?P<pm>afternoon|evening)|(?P<night>night|tonight|midnight|noon))", re.IGNORECASE
)
_DAY_AFTER = lazy_pattern(r" in the (?:morning|afternoon|evening)", re.IGNORECASE)
_BEFORE_TIME = lazy_pattern(
    r"(?<![A-Za-z])(?:at|by|until|till?|before|after|around|about|from|to|past|since|between|and|is|it's|than|of) $",
    re.IGNORECASE,
)
_TO_OR_PAST = lazy_pattern(
    r"(?:(?: minutes?)? (?P<which>past)|(?P<to>(?: minutes?|quarter) (?:to|before))) $", re.IGNORECASE
)
_MINUS = lazy_pattern(r"(?:(?<![A-Za-z0-9_.,)])[-−]|(?<![A-Za-z])(?:minus|negative) )$", re.IGNORECASE)
_BELOW = lazy_pattern(r" below(?: (?:zero|freezing))?(?![A-Za-z])", re.IGNORECASE)
_NUMBER_BEFORE = lazy_pattern(
    r"(?:\d|teen|ty|hundred|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) ?$", re.IGNORECASE
)
_BETWEEN = lazy_pattern(r" ?(?:[-–—~～]|to|or|and) ?")
_SUFFIX = lazy_pattern(r"(?P<ordinal>st|nd|rd|th)(?![A-Za-z])|['’]?(?P<decade>s)(?![A-Za-z])|(?P<letters>[A-Za-z]+)")
_DECADES = {word: 10.0 * tens for tens, word in enumerate(("twenties", "thirties", "forties", "fifties"), start=2)}
_DECADES |= {word: 10.0 * tens for tens, word in enumerate(("sixties", "seventies", "eighties", "nineties"), start=6)}
_AGE = lazy_pattern("[ -]olds?(?![A-Za-z])")
_CENTURY = lazy_pattern("[ -]centur(?:y|ies)(?![A-Za-z])")
_MONTH_NAMES = "|".join((*MONTHS, *(f"{month[:3]}(?![a-z])" for month in MONTHS), "Sept(?![a-z])"))
# "may" and "march" may be verbs
_MONTH = lazy_pattern(rf"\b(?!May\b|Mar\b|March\b)(?P<sure>{_MONTH_NAMES})\b|\b(?P<maybe>May|March|Mar)\b")

# What the first search of `may_have_english_quantities` looks for: words of which any quantity has at least one, unless
# it is one of "a", "one", "first" and the like, which alone are no certain quantity.
_NUMBER_WORDS = frozenset(
    (
        *(word for word in CARDINALS if word not in ("one", "zero")),
        *(*_ORDINAL_VALUES, *_DECADES, *_PARTS, *(f"{word}s" for word in _PARTS), *_SCALES, "point", "oh"),
        *(month[:length].lower() for month in MONTHS for length in (3, 4, None) if month != "May"),
        *("century", "centuries", "clock", "oclock"),
    )
) - {"k", "m", "mar", "marc", "march"}
_LOWER_WORD = lazy_pattern("[a-z]+")
_POSSIBLE_HOURS = frozenset(_POSSIBLE) - {"a", "an"}
_HOUR = lazy_pattern(
    rf"(?<![A-Za-z])(?i:{'|'.join(_POSSIBLE_HOURS)})(?i: ?[ap]\.? ?m(?![A-Za-z])| in the (?:morning|afternoon|evening))"
)
_NUMBER_SIGN = lazy_pattern("[0-9=%]|[IVX]{2}")


@cached_by_text
def may_have_english_quantities(text: str) -> bool:
    """Whether any quantity may be certain; a quick look that spares most texts the search itself."""
    if not _NUMBER_WORDS.isdisjoint(words := _LOWER_WORD.findall(text.lower())):
        return True
    if not AMOUNT_WORDS.isdisjoint(words) or _NUMBER_SIGN.search(text) or AMOUNT_SYMBOL.search(text):
        return True
    if not _POSSIBLE_HOURS.isdisjoint(words) and _HOUR.search(text):
        return True
    return has_numeric(text) or "‰" in text


@cached_by_text
def find_english_quantities(text: str) -> tuple[Quantity, ...]:
    """All quantities, in order."""
    text, codes = hide_literals(text)
    found = [Quantity(one.start, one.stop, one.readings, number=(one.start, one.stop)) for one in codes]
    found += _months(text)
    several, days = len(_TIME.findall(text)) > 1, _parts_of_day(text)
    quantities: list[Quantity] = []
    for number in _numbers(text):
        if quantities and number.start < quantities[-1].stop:
            continue
        day = _parts_of_day(_clause_around(text, number)) if several else days
        quantities.append(_complete(text, number, day))
    mark_ranges(text, quantities)
    found += _share_units(text, quantities)
    return tuple(sorted(found, key=lambda one: one.start))


def _parts_of_day(text: str) -> set[str]:
    return {kind for match in _OF_THE_DAY.finditer(text) for kind, word in match.groupdict().items() if word}


def _clause_around(text: str, number: Number) -> str:
    """The clause of a number, or the text near it."""
    first, last = max(number.start - 2 * NEAR, 0), number.stop + 2 * NEAR
    start = max(text.rfind(mark, first, number.start) for mark in ",;") + 1
    stops = [at for at in (text.find(mark, number.stop, last) for mark in (", ", "; ")) if at >= 0]
    return text[max(start, first) : min(stops, default=last)]


def _months(text: str) -> Iterator[Quantity]:
    for match in _MONTH.finditer(text):
        month = next(at for at, name in enumerate(MONTHS, start=1) if name[:3] == match[0][:3])
        readings = frozenset([reading("month", month)])
        yield Quantity(*match.span(), readings, match["sure"] is not None, number=match.span())


def _numbers(text: str) -> list[Number]:
    """Numbers in digits and words, without units; they do not overlap."""
    found = find_notations(text)
    for start, stop, value in english_numbers(text):
        word = text[start:stop].lower()
        certain = word not in _POSSIBLE or word == "two"
        found.append(Number(start, stop, frozenset([reading("number", value)]), certain))
    taken = {at for one in found for at in range(one.start, one.stop)}
    for match in _WORD.finditer(text):
        word, span = match[0].lower(), match.span()
        if not taken.isdisjoint(range(*span)):
            continue
        readings: set[Reading] = {reading("number", value) for value in _POSSIBLE.get(word, ())}
        if word in _CLOCK_WORDS:
            readings |= {reading("clock", _CLOCK_WORDS[word]), reading("clock12", 0.0)}
        if word in _TIME_UNITS:
            readings.add(_TIME_UNITS[word])
        if word in _DECADES:
            readings |= {("decade", _DECADES[word]), reading("number", _DECADES[word])}
        if word in _ORDINAL_VALUES:
            value = _ORDINAL_VALUES[word]
            readings |= {reading("number", value), reading("number", 1 / value)}
        if readings:
            found.append(Number(*span, frozenset(readings), word in _ORDINAL_VALUES or word in _DECADES))
    return sorted(found, key=lambda one: one.start)


def _complete(text: str, number: Number, day: set[str]) -> Quantity:
    """A number with what belongs to it on its left and right."""
    number = _extend(text, number)
    time = _time(text, number, day)
    if time is not None:
        return time
    money = read_money(text, number)
    return money or _with_sign(text, _with_unit(text, number))


def _with_unit(text: str, number: Number) -> Quantity:
    """With the unit, ordinal ending, decade or letters after it: 5 kg, 5th, 1990s, 3D."""
    start, stop, readings = number.start, number.stop, set(number.readings)
    span, word = (start, stop), text[start:stop].lower()
    suffix = _SUFFIX.match(text, stop) if text[stop - 1].isdigit() else None
    if suffix and suffix["ordinal"]:
        stop = suffix.end()
    elif suffix and suffix["decade"]:
        stop = suffix.end()
        readings |= {("decade", value % 100) for value in number.values}
    if _CENTURY.match(text, stop):
        return Quantity(start, stop, frozenset({("century", value) for value in number.values} | readings), True, span)
    unit = ENGLISH_UNIT.match(text, stop)
    units = english_units(unit) if unit else []
    ordinal = bool(suffix and suffix["ordinal"]) or word in _ORDINAL_VALUES or word.endswith(_ORDINALS)
    if ordinal and any(one.dimension not in TIMES for one in units):
        units = []  # the fifth kilometre is no distance
    if not unit or not units or not number.values:
        if suffix and suffix["letters"] and not _SCALE.match(suffix["letters"]):  # 3D, 4x4
            readings, stop = {("code", (word + suffix["letters"]).casefold())}, suffix.end()
        return Quantity(start, stop, frozenset(readings), number.certain, span)
    part = _AND_A_PART.match(text, unit.end())
    stop = part.end() if part else unit.end()
    values = [value + _part(part[0]) for value in number.values] if part else number.values
    with_unit = {reading(one.dimension, value * one.factor) for one in units for value in values}
    is_time = all(one.dimension in TIMES for one in units)
    # "a second", "one day" and "the third year" need no equal; "one kilogram" does.
    certain = number.certain or (not is_time and word in ("one", "a", "an"))
    if not certain or ordinal or suffix or _AGE.match(text, stop):
        with_unit |= readings
        if unit[0].strip() == "second":  # a second look
            with_unit.add(reading("number", 2))
    return Quantity(start, stop, frozenset(with_unit), certain, span, units[0], values[0])


def _with_sign(text: str, one: Quantity) -> Quantity:
    minus, below = _MINUS.search(text, max(one.start - NEAR, 0), one.start), _BELOW.match(text, one.stop)
    if minus and _NUMBER_BEFORE.search(text, max(minus.start() - NEAR, 0), minus.start()):  # nine minus six
        minus = None
    if not minus and not (below and one.unit):
        return one
    start = minus.start() if minus else one.start
    stop = below.end() if below and not minus else one.stop
    return dataclasses.replace(one, start=start, stop=stop, readings=negative(one.readings), value=-one.value)


def _part(text: str) -> float:
    return 0.5 if "half" in text else 0.75 if "three" in text else 0.25


def _extend(text: str, number: Number) -> Number:
    """With the scale, decimals or fraction that follow: 5 million, three point five, two thirds, two and a half."""
    stop, values = number.stop, number.values
    if not values:
        return number
    word = text[number.start : number.stop].lower()
    certain, readings = number.certain, set(number.readings)
    point, fraction = _POINT.match(text, stop), _FRACTION.match(text, stop)
    part, scale = _AND_A_PART.match(text, stop), _SCALE.match(text, stop)
    if point:
        digits = "".join(str(_DIGIT_WORDS.index(w) if w in _DIGIT_WORDS else 0) for w in point[1].lower().split())
        readings, stop = {reading("number", values[0] + float(f"0.{digits}"))}, point.end()
        scale, certain = _SCALE.match(text, stop), True
        values = [value for _, value in readings if isinstance(value, float)]
    elif fraction and (word in ("a", "one") or (certain and values[0] < 100 and word.endswith(_COUNTED))):
        unit = text[fraction.start() : fraction.end()].strip(" -").lower()
        name = unit if unit in _PARTS else unit.removesuffix("s")
        readings, stop = {reading("number", values[0] / _PARTS[name])}, fraction.end()
        if word == "a":
            readings.add(reading("number", _PARTS[name]))
        certain = number.certain or (word == "one" and name != "half")
    elif part and word not in ("the", "each", "every"):
        readings, stop = {reading("number", values[0] + _part(part[0]))}, part.end()
        scale, certain = None, True
        following_scale = _SCALE.match(text, stop)
        if following_scale and following_scale["word"]:
            scale, values = following_scale, [values[0] + _part(part[0])]
    if scale and scale["letter"] and ENGLISH_UNIT.match(text, stop) and not read_money(text, number):
        scale = None  # 5 m are metres
    half_a = re.match(" an? ", text[stop:])
    if word == "half" and half_a:
        later = _SCALE.match(text, stop + half_a.end())
        scale, stop = later, stop + half_a.end() - (0 if later else 1)
    if scale and word not in ("the", "first", "last", "per", "each", "every", "another", "no", "second"):
        times = _SCALES[scale["word"] or scale["letter"]]
        scaled = {reading("number", value * times) for value in values}
        with_unit = ENGLISH_UNIT.match(text, scale.end()) is not None  # 5 k days; but 5k alone may be a code
        readings = scaled if scale["word"] or with_unit else readings | scaled
        stop = scale.end() if scale["word"] or not ENGLISH_UNIT.match(text, stop) else stop
        certain = certain or (bool(scale["word"]) and word in ("a", "one", "half"))  # "a k" is no thousand
    return dataclasses.replace(number, stop=stop, readings=frozenset(readings), certain=certain)


def _time(text: str, number: Number, day: set[str]) -> Quantity | None:
    """A time of day: 3 pm, 14:30, three o'clock, half past three; or None."""
    start, stop = number.start, number.stop
    clock = {float(value) for dimension, value in number.readings if dimension in ("clock", "clock12")}
    if not clock:
        hours = [value for value in number.values if value == int(value) and 0 < value <= 24]
        if not hours or text[number.start : number.stop].lower() in ("a", "an", "the", "once", "per", "every", "each"):
            return None
        clock = {60 * hours[0]}
    period, oclock = _PERIOD.match(text, stop), _OCLOCK.match(text, stop)
    if not period and oclock:
        stop, period = oclock.end(), _PERIOD.match(text, oclock.end())
    before = _TO_OR_PAST.search(text, max(start - NEAR, 0), start)
    until = (
        before.start() + (len(" quarter") - 1 if before and (before["to"] or "").startswith(" quarter") else 0)
        if before
        else 0
    )
    minutes = _minutes_before(text[:until]) if before else None
    of_clock = any(dimension.startswith("clock") for dimension, _ in number.readings)
    is_time = bool(period or oclock or minutes or _DAY_AFTER.match(text, stop) or (of_clock and text[start].isdigit()))
    if not is_time:
        on_the_hour = (
            _BEFORE_TIME.search(text, max(start - NEAR, 0), start)
            and max(clock) <= 720
            and not text[stop : stop + 1].isalpha()
        )
        if not on_the_hour or ENGLISH_UNIT.match(text, stop) or _SCALE.match(text, stop):
            return None
        times = {one for at in clock for one in _period_readings(at % 720, day)}
        return Quantity(
            start, stop, number.readings | times, number.certain, (start, stop), as_source=_as_source(times)
        )
    at, span = min(clock), (number.start, number.stop)
    if minutes and before:
        sign = -1 if before["to"] else 1
        start, at = minutes[0], at + sign * minutes[1]
    stop = period.end() if period else stop
    if period:
        at = at % 720 + (720 if period["half"].lower() == "p" else 0)
        return Quantity(start, stop, frozenset([reading("clock", at)]), True, span)
    if of_clock and not any(dimension == "clock12" for dimension, _ in number.readings):
        return Quantity(start, stop, number.readings, True, span)
    readings = _period_readings(at % 720, day)
    digital = frozenset(one for one in number.readings if one[0] in ("ratio", "clock"))
    return Quantity(start, stop, digital | readings, True, span, as_source=_as_source(readings))


def _period_readings(at: float, day: set[str]) -> set[Reading]:
    """The time with the parts of the day that the sentence mentions; without any, it may be before or after noon."""
    found: set[Reading] = {reading("clock12", at)}
    if "am" in day or "night" in day:
        found.add(reading("clock", at))
    if "pm" in day or "night" in day:
        found.add(reading("clock", at + 720))
    return found


def _as_source(readings: set[Reading]) -> frozenset[Reading]:
    """A source without a part of the day may be translated with one."""
    if any(dimension == "clock" for dimension, _ in readings):
        return frozenset()
    halves = {
        reading("clock", float(at) + noon) for dimension, at in readings if dimension == "clock12" for noon in (0, 720)
    }
    return frozenset(halves)


def _minutes_before(text: str) -> tuple[int, float] | None:
    """Where the minutes begin that the text ends with, and how many they are: ten (to three), half (past three)."""
    word = re.search(r"(?:a )?(half|quarter)$", text, re.IGNORECASE)
    if word:
        return word.start(), 30.0 if word[1].lower() == "half" else 15.0
    numbers = [one for one in (*find_notations(text[-20:]), *_spelled(text[-20:])) if one.stop == len(text[-20:])]
    if numbers and numbers[0].values and numbers[0].values[0] < 60:
        return len(text) - len(text[-20:]) + numbers[0].start, numbers[0].values[0]
    return None


def _spelled(text: str) -> list[Number]:
    return [Number(start, stop, frozenset([reading("number", value)])) for start, stop, value in english_numbers(text)]


def _share_units(text: str, found: list[Quantity]) -> list[Quantity]:
    """Give the unit of a range to its first number: 3–5 kg, three to five days."""
    for at in reversed(range(len(found) - 1)):
        first, second = found[at], found[at + 1]
        dimensions = {dimension for dimension, _ in first.readings}
        plain = "number" in dimensions <= {"number", "clock12"} and (first.start, first.stop) == first.number
        if not plain or not _BETWEEN.fullmatch(text[first.stop : second.start]):
            continue
        scales = [unit for unit in (ENGLISH_UNIT.match(text, second.number[1]),) if unit]
        units = english_units(scales[0]) if scales else []
        values = [float(value) for dimension, value in first.readings if dimension == "number"]
        if units and second.stop > second.number[1]:
            readings = frozenset(reading(one.dimension, value * one.factor) for one in units for value in values)
            # "one or two days": the first number need not have a unit
            found[at] = dataclasses.replace(first, readings=readings, as_source=frozenset())
    return found
