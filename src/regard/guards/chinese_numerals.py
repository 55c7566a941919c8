"""Chinese numerals, and digits with a Chinese scale: 三十五, 二〇二四, 1亿2000万, 三点五, 两万五."""

from __future__ import annotations

import dataclasses
import re

from regard.guards.notation import Number, find_notations
from regard.guards.numbers import chinese_values
from regard.guards.quantities import reading
from regard.guards.units import CHINESE_UNIT, TIMES, chinese_units
from regard.text.patterns import lazy_pattern

FORMAL_NUMERALS = "壹贰叁肆伍陆柒捌玖拾佰仟貳參陸"
_FORMAL = str.maketrans(FORMAL_NUMERALS, "一二三四五六七八九十百千二三六")
_FORMAL_NUMBER = lazy_pattern("[壹贰叁肆伍陆柒捌玖拾佰仟貳參陸万萬亿零]{2,}")
NUMERALS = "零〇一二两兩三四五六七八九十百千万萬亿億廿卅"
# Where numerals are parts of words.
_NOT_NUMBERS = lazy_pattern(
    "(?:星期|礼拜|禮拜|周|週)[一二三四五六](?!点|時|时|百|千|个|年|天|十)|(?<![一二两三四五六七八九])十"
    "分(?!钟|鐘|之|米)|四周(?!年|内|后|前|的时间|岁)|千万(?=[别不要小记注])|(?<![0-9一二三四五六七八九十百千])万一|萬一|千方百计|一一|万万|"
    "一共|三三两两|三明治|三文[治鱼]|三角|四川|五官|七夕|八卦|十字|百货|千金|千里|万岁|万事|万物|万能|"
    "[一三四五六七八九两][面方心言手颜脚番头]?[一三四五六七八九两百千八][方意语足色舌次牛][^百千]?|"
    "乱七八糟|七上八下|不三不四|五花八门|四面八方|四分五裂|百科|老百姓|百姓|十全十美|一五一十|九牛一毛|一石二鸟|"
    "三十六计|二话|二手|二哥|二姐|老[二三四五六七八九]|两码事|四分卫|一码事|两回事|第二天|零食|零钱|零售|凋"
    "零|五一节|(?<=不)一"
)
DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_APPROXIMATE = lazy_pattern(f"[一二三四五六七八九两兩]{{2}}(?=十|百|千|万|[^{NUMERALS}]|$)")
_MEASURE_WORD = lazy_pattern(
    "[ ]?(?:[个個只隻本天岁歲次张張条條件块塊位名家辆輛台臺把杯瓶双雙小份口日号號种種层層座棵朵支枝首部所门門"
    "节節课題题段页頁顿頓套对對"
    "群匹头頭根颗顆粒片碗盒包袋箱桶级級班届期遍趟场場票罐间間封幅副架栋棟艘篇项項笔筆滴束串打排队隊组組股味员員成折胎等楼樓局项代回岁]|"
    "人(?!民)|月|年|点|點|分|时(?!候)|倍|天|晚|夜(?!里)|周|星期|礼拜|世纪|世紀)"
)
_DECIMAL = lazy_pattern(f"[{NUMERALS}]+[点點]([零〇一二三四五六七八九]+)(?![{NUMERALS}分刻钟鐘])")
_NUMBER = lazy_pattern(rf"(?:千(?![克米瓦卡帕伏赫])|[{NUMERALS.replace('千', '')}])+")
_SCALE_AFTER = lazy_pattern(r" ?((?:百(?!分)|千(?![克米瓦卡帕伏赫])|[万萬亿億])+)")
_MORE_DIGITS = lazy_pattern(r"\d[\d,]*(?:\.\d+)?")


def fold_formal(text: str) -> str:
    """The numerals of cheques as everyday ones: 叁佰 as 三百."""
    return _FORMAL_NUMBER.sub(lambda match: match[0].translate(_FORMAL), text)


def find_chinese_numbers(text: str) -> list[Number]:
    hidden = text
    found = []
    for match in _NOT_NUMBERS.finditer(text):
        digits = [(at, DIGITS[one]) for at, one in enumerate(match[0], start=match.start()) if one in DIGITS]
        if match[0] != "一共":
            found += [Number(at, at + 1, frozenset([reading("number", value)]), False) for at, value in digits]
        hidden = hidden[: match.start()] + "#" * len(match[0]) + hidden[match.end() :]
    found += [_with_scale(hidden, one) for one in find_notations(hidden)]
    taken = {at for one in found for at in range(one.start, one.stop)}
    for match in _NUMBER.finditer(hidden):
        if match.start() in taken:
            continue
        found += _read_numerals(hidden, match)
    return sorted(found, key=lambda one: one.start)


def _with_scale(text: str, number: Number) -> Number:
    """Digits with a scale after them: 1亿2000万."""
    scale = _SCALE_AFTER.match(text, number.stop)
    if not scale or not number.values:
        return number
    total, stop = number.values[0] * _times(scale[1]), scale.end()
    while True:
        more = _MORE_DIGITS.match(text, stop)
        scale = _SCALE_AFTER.match(text, more.end()) if more else None
        if not more or not scale:
            break
        total, stop = total + float(more[0].replace(",", "")) * _times(scale[1]), scale.end()
    return dataclasses.replace(number, stop=stop, readings=frozenset([reading("number", total)]))


def _times(scale: str) -> float:
    times = 1.0
    for character in scale:
        times *= {"百": 1e2, "千": 1e3}.get(character, 1e4 if character in "万萬" else 1e8)
    return times


def _read_numerals(text: str, match: re.Match[str]) -> list[Number]:
    """The number that a run of numerals is; of an approximate one (七八个) both, neither certain."""
    start, stop = match.span()
    if text.startswith("零下", start):
        return []
    numerals = match[0].replace("廿", "二十").replace("卅", "三十")
    decimal = _DECIMAL.match(text, start)
    if decimal:
        whole = max(chinese_values(text[start : decimal.start(1) - 1], None))
        fraction = "".join(str(DIGITS[character]) for character in decimal[1])
        readings = {reading("number", whole + float(f"0.{fraction}"))}
        return [Number(start, decimal.end(), frozenset(readings))]
    rising = len(numerals) > 1 and DIGITS.get(numerals[0], 10) < DIGITS.get(numerals[1], 0)  # 七八, but not 七七
    if rising and _APPROXIMATE.match(text, start) and len(match[0]) <= 3 and match[0][-1:] not in "零〇":
        scale = numerals[2:] or ""
        values = [max(chinese_values(one + scale, None)) for one in numerals[:2]]
        readings = {reading("number", value) for value in values}
        return [Number(start + at, start + at + 1, frozenset(readings)) for at in range(2)]
    value = _value(numerals)
    more = re.match("[多余]([万亿])", text[stop:])
    if more:
        return [Number(start, stop + 2, frozenset([reading("number", value * _times(more[1]))]))]
    readings = {reading("number", value)}
    if all(one in DIGITS for one in numerals) and len(numerals) > 4:
        digits = "".join(str(DIGITS[one]) for one in numerals)
        readings = {("code", digits)} | ({reading("number", float(digits))} if digits[0] != "0" else set())
    return [Number(start, stop, frozenset(readings), _is_certain(text, start, stop))]


def _value(numerals: str) -> float:
    """The value; 两万五 is 25,000 and 一九九四 is 1994."""
    if len(numerals) > 1 and all(one in DIGITS for one in numerals):
        return float("".join(str(DIGITS[one]) for one in numerals))
    value = max(chinese_values(numerals, None)) if len(numerals) == 1 else _total(numerals)
    if len(numerals) >= 3 and numerals[-1] in "一二三四五六七八九" and numerals[-2] in "百千万萬亿億":
        value += DIGITS[numerals[-1]] * (_times(numerals[-2]) / 10 - 1)
    return value


def _total(numerals: str) -> float:
    total = section = 0.0
    digit: float | None = None
    for character in numerals:
        if character in DIGITS:
            digit = DIGITS[character] or None
        elif character in "十百千":
            section += (1 if digit is None else digit) * (10 if character == "十" else _times(character))
            digit = None
        else:
            section += digit or 0
            total = total * _times(character) if total and not section else total + (section or 1) * _times(character)
            section, digit = 0.0, None
    return total + section + (digit or 0)


def _is_certain(text: str, start: int, stop: int) -> bool:
    """Whether the numerals are surely a number, and not a part of a word or "a"."""
    numerals = text[start:stop]
    before, after = text[start - 1 : start], text[stop : stop + 2]
    if after[:1].isdecimal() or before.isdecimal():
        return True
    if (before and before in "几幾数數好") or after[:1] in ("几", "幾", "数", "来", "來"):
        return False
    if len(numerals) > 1:
        return numerals[0] not in "零百千万萬亿億" and not numerals.startswith("一十")
    unit = CHINESE_UNIT.match(text, stop)
    if numerals in "一零〇":
        physical = unit and not unit["symbol"] and all(one.dimension not in TIMES for one in chinese_units(unit))
        return (
            bool(physical)
            and unit is not None
            and unit[0].strip() not in ("块", "塊", "角", "度", "毛", "码", "兆", "瓦", "分")
        )
    if numerals in "百千万萬亿億":
        return False
    if before == "第":
        return True
    if numerals in "两兩二" and after[:1] in ("口", "头", "手", "面", "边", "旁"):
        return False
    if after[:1] in ("多", "余") and numerals == "十":
        return True
    return bool(_MEASURE_WORD.match(text, stop) or unit) and before not in tuple("期周拜星老")


def numeral_value(text: str) -> float:
    return float(text) if text.isdecimal() and text.isascii() else _value(text.lstrip("零〇") or "零")
