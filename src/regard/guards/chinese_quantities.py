"""The quantities of a Chinese text: in digits and numerals, with units, currencies, signs and times of day."""

from __future__ import annotations

import dataclasses
import re

from regard.guards.chinese_numerals import (
    DIGITS,
    FORMAL_NUMERALS,
    NUMERALS,
    find_chinese_numbers,
    fold_formal,
    numeral_value,
)
from regard.guards.notation import NEAR, Number, has_numeric, hide_literals, read_money
from regard.guards.quantities import Quantity, Reading, mark_ranges, negative, reading
from regard.guards.units import CHINESE_UNIT, TIMES, chinese_units, per_hour
from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern

_ANY_NUMERAL = rf"[{NUMERALS}]+"
_PART_OF = lazy_pattern(rf"({_ANY_NUMERAL}|\d+)分之")
_TENTHS = {"百": ("percent", 1.0), "千": ("percent", 0.1), "万": ("percent", 0.01)}
_MINUS = lazy_pattern("(?:(?<![A-Za-z0-9_.,)])[-−]|负|負|零下)$")
_ABOVE = lazy_pattern("零上$")
_SPEED = lazy_pattern("(?:每小时|每小時|时速|時速)(?:为|是|约|大约|达到|达|可达|超过|近|走|跑|行驶|开)?$")
_PER_SECOND = lazy_pattern("每秒$")
_CLOCK = lazy_pattern(
    rf"(?:点钟|點鐘|点整|点|點|时(?![候间常代期而段刻差装事])|時)"
    rf"(?:(?P<half>半)|(?P<quarters>[一两三])刻|过?(?P<minutes>\d{{2}}|\d(?=分)|[零"
    rf"〇]?[{NUMERALS}]{{1,3}})(?P<mark>分(?!之)|(?![{NUMERALS}\d个天年月])))?"
)
_LESS = lazy_pattern("差(?:(?P<minutes>[零一二两三四五六七八九十\\d]{1,3})分钟?|(?P<quarter>一刻钟?))(?:到)?$")
_LESS_AFTER = lazy_pattern("差(?:(?P<minutes>[零一二两三四五六七八九十\\d]{1,3})分钟?|(?P<quarter>一刻))")
_HOUR_AFTER = "(?=[一二三四五六七八九十两0-9]{1,3} ?(?:[点點:：]|时(?!间)|時(?!間)))"  # 晚8点, but not 晚2分钟
_OF_THE_DAY = lazy_pattern(
    f"(?P<am>凌晨|清晨|早上|早晨|上午|今早|明早|(?<!最)早{_HOUR_AFTER})|(?P<pm>下午|傍晚|午"
    f"后)|(?P<night>晚上|今晚|昨晚|明晚|夜里|半夜|深夜|夜晚|当晚|中午|午夜|(?<!最)晚{_HOUR_AFTER})"
)
_CENTURY_BEFORE = lazy_pattern(r"(\d+|[一二十]+)世纪$")
_DECADE = lazy_pattern("年代")
_CENTURY = lazy_pattern("世纪|世紀")
_HALF_AFTER = lazy_pattern("[个個]半")
_DECIMALS_AFTER = lazy_pattern(r"([零〇一二两兩三四五六七八九]{1,2}|\d{1,2})(?=$|[，。！？、；,!?高长的左以])")
_MORE = ("多", "余", "餘", "来", "來")
_UNITS_OR_COUNTERS = ("岁", "歲", "日", "块", "塊", "分")  # 三块 may be three pieces
_BETWEEN = lazy_pattern(r" ?(?:[-–—~～到至或、]|或者|还是) ?")
_OPTIONAL_WORDS = {
    **dict.fromkeys("俩倆双雙对對", (2.0,)),
    "半": (0.5, 30.0),
    "每": (1.0,),
    "首": (1.0,),
    "刻": (15.0,),
    "打": (12.0,),
    "几": (2.0, 3.0, 4.0, 5.0),
    "单": (1.0,),
    "独": (1.0,),
    "全": (1.0,),
    "无": (0.0,),
    "没": (0.0,),
    "初": (1.0,),
    "次": (2.0,),
    "另": (1.0,),
    "都": (2.0,),
}
_CLOCK_WORDS = {"中午": 720.0, "正午": 720.0, "午夜": 0.0, "半夜": 0.0}

_ONE = lazy_pattern("一")
_ANY_NUMBER = lazy_pattern(
    rf"[\d={NUMERALS.replace('一', '')}{FORMAL_NUMERALS}]|一(?= ?[{NUMERALS}点點时時世])|[IVX]{{2,}}"
)


@cached_by_text
def may_have_chinese_quantities(text: str) -> bool:
    """Whether any quantity may be certain; a quick look that spares most texts the search itself."""
    if _ANY_NUMBER.search(text) or has_numeric(text, but="一"):
        return True
    units = (CHINESE_UNIT.match(text, match.end()) for match in _ONE.finditer(text))
    return any(unit and any(one.dimension not in TIMES for one in chinese_units(unit)) for unit in units)


@cached_by_text
def find_chinese_quantities(text: str) -> tuple[Quantity, ...]:
    """All quantities, in order."""
    text, codes = hide_literals(text)
    text = fold_formal(text)
    found = [Quantity(one.start, one.stop, one.readings, number=(one.start, one.stop)) for one in codes]
    day = {kind for match in _OF_THE_DAY.finditer(text) for kind, word in match.groupdict().items() if word}
    quantities: list[Quantity] = []
    for number in find_chinese_numbers(text):
        if quantities and number.start < quantities[-1].stop:
            continue
        if number.start and text[number.start - 1] in "点點" and text[number.start].isdecimal():
            number = dataclasses.replace(number, readings=frozenset([("code", text[number.start - 1 : number.stop])]))
        quantities.append(_complete(text, number, day))
    mark_ranges(text, quantities)
    found += _join_money(_share_units(text, quantities))
    found += _possible(text, found)
    return tuple(sorted(found, key=lambda one: one.start))


def _possible(text: str, found: list[Quantity]) -> list[Quantity]:
    """Characters that may stand for a number of the source."""
    taken = {at for one in found for at in range(one.start, one.stop)}
    more = []
    for at, character in enumerate(text):
        if character in _OPTIONAL_WORDS and at not in taken:
            readings = {reading("number", value) for value in _OPTIONAL_WORDS[character]}
            unit = CHINESE_UNIT.match(text, at + 1) or (
                text[at + 1 : at + 2] in ("个", "個") and CHINESE_UNIT.match(text, at + 2)
            )
            if unit and character in "半每几":
                values = _OPTIONAL_WORDS[character]
                readings |= {
                    reading(one.dimension, value * one.factor) for one in chinese_units(unit) for value in values
                }
            more.append(Quantity(at, at + 1, frozenset(readings), False, (at, at + 1)))
        if text.startswith("百分百", at):
            more.append(Quantity(at, at + 3, frozenset([reading("percent", 100)]), True, (at, at + 3)))
        word = text[at : at + 2]
        if word in _CLOCK_WORDS:
            times = frozenset([reading("clock", _CLOCK_WORDS[word]), reading("clock12", 0.0)])
            more.append(Quantity(at, at + 2, times, False, (at, at + 2)))
    return more


def _complete(text: str, number: Number, day: set[str]) -> Quantity:
    """A number with what belongs to it on its left and right."""
    fraction = _PART_OF.match(text, number.start)
    if fraction:
        return _fraction(text, number, fraction)
    time = _time(text, number, day)
    if time is not None:
        return time
    money = read_money(text, number)
    return money or _with_sign(text, _with_unit(text, number))


def _fraction(text: str, number: Number, match: re.Match[str]) -> Quantity:
    """三分之一, 百分之五."""
    numerator = next((one for one in find_chinese_numbers(text[match.end() :]) if one.start == 0), None)
    if numerator is None or not numerator.values or not number.values or not number.values[0]:
        return Quantity(number.start, number.stop, number.readings, number.certain, (number.start, number.stop))
    value, stop = numerator.values[0], match.end() + numerator.stop
    if match[1] in _TENTHS:
        dimension, factor = _TENTHS[match[1]]
        readings = {reading(dimension, value * factor)}
    else:
        readings = {reading("number", value / number.values[0])}
    return Quantity(number.start, stop, frozenset(readings), True, (number.start, stop))


def _time(text: str, number: Number, day: set[str]) -> Quantity | None:
    """A time of day: 三点半, 下午3点, 14:30; or None."""
    clock = {float(value) for dimension, value in number.readings if dimension in ("clock", "clock12")}
    others = {one for one in number.readings if one[0] in ("ratio", "clock")}
    stop, start = number.stop, number.start
    if clock:
        at = min(clock)
        if not any(dimension == "clock12" for dimension, _ in number.readings):
            return Quantity(start, stop, number.readings, True, (start, stop))
    else:
        match = _CLOCK.match(text, stop)
        hours = [value for value in number.values if value == int(value) and 0 <= value <= 24]
        if not match or not hours or len(text[start:stop]) > 3 or text[stop : stop + 2] in ("点儿", "点了点"):
            return None
        at, stop = 60 * hours[0], match.end()
        minutes = 30.0 if match["half"] else 15.0 * (DIGITS[match["quarters"]] if match["quarters"] else 0)
        at += minutes or numeral_value(match["minutes"] or "0")
        if not match["minutes"] and not match["half"] and not match["quarters"] and "钟" not in match[0]:
            others |= number.readings  # three points
        less = _LESS.search(text, max(start - NEAR, 0), start) or _LESS_AFTER.match(text, stop)
        if less:
            at -= 15.0 if less["quarter"] else numeral_value(less["minutes"])
            start, stop = (less.start(), stop) if less.end() <= start else (start, less.end())
        if hours[0] > 12 or hours[0] == 0:
            return Quantity(
                start, stop, frozenset([reading("clock", at % 1440), *others]), True, (number.start, number.stop)
            )
    at %= 720
    readings: set[Reading] = {reading("clock12", at)} | others
    period = [match for match in _OF_THE_DAY.finditer(text, max(start - NEAR, 0), start) if match.end() == start]
    kinds = {kind for kind, word in period[-1].groupdict().items() if word} if period else day
    if "am" in kinds or "night" in kinds:
        readings.add(reading("clock", at))
    if "pm" in kinds or "night" in kinds:
        readings.add(reading("clock", at + 720))
    span = (number.start, number.stop)
    if period and not (period[-1][0] == "中午" and at < 60):  # what the source says must not be lost
        return Quantity(start, stop, frozenset(one for one in readings - others if one[0] == "clock"), True, span)
    as_source = frozenset() if kinds else frozenset([reading("clock", at), reading("clock", at + 720)])
    return Quantity(start, stop, frozenset(readings), number.certain, span, as_source=as_source)


def _with_unit(text: str, number: Number) -> Quantity:
    """With the unit, decade, century or letters after it: 五公斤, 90年代, 3D."""
    start, stop, span = number.start, number.stop, (number.start, number.stop)
    readings: set[Reading] = set(number.readings)
    if _DECADE.match(text, stop):
        readings |= {("decade", value % 100) for value in number.values}
        before = _CENTURY_BEFORE.search(text, max(start - NEAR, 0), start)
        if before:
            readings |= {reading("number", 100 * (numeral_value(before[1]) - 1) + value) for value in number.values}
    elif _CENTURY.match(text, stop):
        readings |= {("century", value) for value in number.values}
        later = re.match(rf"世纪(?:\d+|{_ANY_NUMERAL})年代", text[stop:])
        return Quantity(start, stop, frozenset(readings), not later, span)
    whole = all(value.is_integer() for value in number.values)  # nobody says 27.04多年
    half, more = _HALF_AFTER.match(text, stop), whole and text[stop : stop + 1] in _MORE
    unit = CHINESE_UNIT.match(text, half.end() if half else stop + 1 if more else stop)
    if unit and number.values:
        values = [value + 0.5 for value in number.values] if half else number.values
        return _measured(text, number, unit, values)
    if text[stop - 1].isdigit() and (letters := re.match("[A-Za-z]+", text[stop:])):
        readings, stop = {("code", text[start : stop + letters.end()].casefold())}, stop + letters.end()
    return Quantity(start, stop, frozenset(readings), number.certain, span)


def _measured(text: str, number: Number, unit: re.Match[str], values: list[float]) -> Quantity:
    units, start, stop = chinese_units(unit), number.start, unit.end()
    speed = _SPEED.search(text, max(start - NEAR, 0), start)
    if speed and any(one.dimension == "length" for one in units):
        units, start = per_hour(units), speed.start()
    word = unit["chinese"] or ""
    span = (number.start, number.stop)
    if word == "月":  # 5月 is May; 5个月, five months
        return Quantity(start, stop, frozenset(reading("month", value) for value in values), number.certain, span)
    decimals = _abbreviated(text, unit)
    if decimals:
        stop, values = decimals[0], [value + decimals[1] for value in values]
    readings = {reading(one.dimension, value * one.factor) for one in units for value in values}
    if (
        not number.certain
        or text[start - 1 : start] == "第"
        or word in _UNITS_OR_COUNTERS
        or (word == "年" and 1000 <= max(values) < 10_000)
    ):
        readings |= number.readings
    return Quantity(start, stop, frozenset(readings), number.certain, span, units[0], values[0])


def _with_sign(text: str, one: Quantity) -> Quantity:
    minus = _MINUS.search(text, max(one.start - NEAR, 0), one.start)
    if not minus:
        return one
    return dataclasses.replace(one, start=minus.start(), readings=negative(one.readings), value=-one.value)


def _abbreviated(text: str, unit: re.Match[str]) -> tuple[int, float] | None:
    """The decimals after a unit: 一米七 is 1.7 m, 五块五 5.5 yuan."""
    if unit["chinese"] not in ("米", "块", "塊", "元"):
        return None
    digits = re.compile(
        rf"([零〇一二两三四五六七八九]{{1,2}}|\d{{1,2}})(?![{NUMERALS}\d.:个個只年月点分元块毛角])"
    ).match(text, unit.end())
    if not digits:
        return None
    written = "".join(str(DIGITS.get(one, one)) for one in digits[1])
    return digits.end(), float(f"0.{written}")


def _share_units(text: str, found: list[Quantity]) -> list[Quantity]:
    """Give the unit of a range to its first number: 3–5公斤, 三到五天."""
    for at in reversed(range(len(found) - 1)):
        first, second = found[at], found[at + 1]
        if {dimension for dimension, _ in first.readings} != {"number"} or first.start != first.number[0]:
            continue
        if not (_BETWEEN.fullmatch(text[first.stop : second.start]) or first.stop == second.start):
            continue
        unit = CHINESE_UNIT.match(text, second.number[1])
        values = [float(value) for _, value in first.readings]
        if unit and second.stop > second.number[1]:
            readings = {reading(one.dimension, value * one.factor) for one in chinese_units(unit) for value in values}
            plain = set(first.readings) if unit["chinese"] in _UNITS_OR_COUNTERS else set()
            found[at] = dataclasses.replace(first, readings=frozenset(readings | plain))
        elif second.stop > second.number[1] and text[second.number[1] : second.number[1] + 1] in "点點时":
            times = {reading("clock12", 60 * value % 720) for value in values}
            found[at] = dataclasses.replace(first, readings=first.readings | times)
    return found


def _join_money(found: list[Quantity]) -> list[Quantity]:
    """One amount for 四元五毛."""
    joined: list[Quantity] = []
    for one in found:
        before = joined[-1] if joined else None
        if (
            before
            and before.unit
            and one.unit
            and before.stop == one.start
            and (before.unit.dimension == one.unit.dimension == "CNY")
        ):
            value = before.value + one.value * one.unit.factor / before.unit.factor
            readings = frozenset([reading("CNY", value * before.unit.factor)])
            joined[-1] = dataclasses.replace(before, stop=one.stop, readings=readings, value=value)
        else:
            joined.append(one)
    return joined
