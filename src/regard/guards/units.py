"""Units of measure and currencies, with their names in English and Chinese.

Values are compared in a base unit of their dimension, so 2 km equals 2000 m and a fortnight equals 14 天. A dimension
is a word such as "mass"; a currency is a dimension of its own, since no amount of one equals an amount of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from regard.text.patterns import lazy_pattern


@dataclass(frozen=True)
class Unit:
    dimension: str
    factor: float  # to the base unit of the dimension
    english: str  # as the rules write it after a number
    chinese: str
    plural: str = ""  # in English, if it is not the same


# dimension, factor, symbols, English words (without plural s), Chinese words; the first of each is the one to write.
_TABLE = """
mass 1e-9 μg,mcg microgram 微克
mass 1e-6 mg milligram,milligramme 毫克
mass 1e-3 g gram,gramme 克,公克
mass 1 kg,KG,Kg kilogram,kilo,kilogramme 公斤,千克
mass 1000 t ton,tonne 吨,噸
mass 0.5 - jin,catty,catties 斤
mass 0.45359237 lb,lbs pound 磅
mass 0.028349523 oz ounce 盎司
length 1e-9 nm nanometer,nanometre 纳米
length 1e-6 μm micrometer,micrometre,micron 微米
length 1e-3 mm millimeter,millimetre 毫米
length 0.01 cm centimeter,centimetre 厘米,公分,釐米
length 1 m meter,metre 米,公尺
length 1000 km kilometer,kilometre 公里,千米
length 1609.344 mi mile 英里,哩
length 0.3048 ft foot,feet 英尺,呎
length 0.0254 - inch 英寸,吋
length 0.9144 yd yard 码,碼
area 1e-4 cm²,cm2 square~centimeter,square~centimetre 平方厘米
area 1 m²,m2 square~meter,square~metre 平方米,平米,平方公尺
area 1e6 km²,km2 square~kilometer,square~kilometre 平方公里,平方千米
area 1e4 ha hectare 公顷
area 4046.8564 - acre 英亩,英畝
volume 1e-3 ml,mL milliliter,millilitre 毫升
volume 1 l,L liter,litre 升,公升
volume 1000 m³,m3 cubic~meter,cubic~metre 立方米,立方公尺
volume 3.7854118 gal gallon 加仑,加侖
speed 1 km/h,kph,kmh kilometer~per~hour,kilometre~per~hour 公里每小时,公里/小时,千米每小时,千米/小时,公里/时
speed 3.6 m/s meter~per~second,metre~per~second 米每秒,米/秒
speed 1.609344 mph mile~per~hour 英里每小时,英里/小时
time 1e-3 ms millisecond 毫秒
time 1 s,sec second 秒钟,秒,秒鐘
time 60 min minute 分钟,分鐘
time 3600 h,hr,hrs hour 小时,个小时,小時,個小時,钟头,个钟头,鐘頭
time 86400 - day 天,日
time 604800 - week 周,星期,个星期,礼拜,个礼拜,週,個星期
time 1209600 - fortnight -
months 1 - month 个月,個月,月
months 12 - year 年,岁,歲
months 120 - decade -
celsius 1 °C,℃,°c degree~Celsius,degree~centigrade 摄氏度,°C,℃,攝氏度
fahrenheit 1 °F,℉ degree~Fahrenheit 华氏度,華氏度
degree 1 ° degree 度
percent 1 % percent,per~cent,percentage~point %,个百分点
percent 0.1 ‰ per~mille,permille ‰
USD 1 USD,US$ dollar,US~dollar,American~dollar,U.S.~dollar,bucks 美元,美金,美圆,块美元,块美金
EUR 1 EUR,€ euro 欧元,歐元
GBP 1 GBP,£ pound~sterling,British~pound 英镑,鎊,英鎊
CNY 1 CNY,RMB yuan,kuai,renminbi 元,块钱,块,元钱,塊錢,塊,人民币,元人民币,圆
CNY 0.1 - jiao,mao 毛钱,毛,角
CNY 0.01 - fen 分钱,分
JPY 1 JPY yen,Japanese~yen 日元,日圆,日圓,円
HKD 1 HKD Hong~Kong~dollar 港元,港币
USD 0.01 - cent 美分
data 1e-3 KB,kB kilobyte 千字节
data 1 MB megabyte 兆字节,兆
data 1e3 GB gigabyte 吉字节,千兆字节
data 1e6 TB terabyte 太字节
data 1e-6 - byte 字节
bitrate 1 Mbps,Mb/s megabit~per~second 兆比特每秒
power 1 W watt 瓦特,瓦
power 1e3 kW kilowatt 千瓦
power 1e6 MW megawatt 兆瓦
energy 1 kWh kilowatt-hour,kilowatt~hour 千瓦时,度电
heat 1 cal calorie 卡路里,卡
heat 1000 kcal kilocalorie 千卡,大卡
voltage 1 V volt 伏,伏特
voltage 1e3 kV kilovolt 千伏
current 1 A amp,ampere 安培,安
current 1e-3 mA milliamp,milliampere 毫安
charge 1 mAh milliamp-hour,milliampere-hour 毫安时
frequency 1 Hz hertz 赫兹,赫
frequency 1e3 kHz kilohertz 千赫,千赫兹
frequency 1e6 MHz megahertz 兆赫,兆赫兹
frequency 1e9 GHz gigahertz 吉赫,吉赫兹
pressure 1 Pa pascal 帕,帕斯卡
pressure 1e3 kPa kilopascal 千帕
sound 1 dB decibel 分贝
"""
CURRENCY_SIGNS = {"$": ("USD",), "€": ("EUR",), "£": ("GBP",), "¥": ("CNY", "JPY"), "￥": ("CNY", "JPY")}
CURRENCY_UNITS: dict[str, Unit] = {}  # the main one of each currency
CURRENCIES = frozenset(["USD", "EUR", "GBP", "CNY", "JPY", "HKD"])
TIMES = frozenset(["time", "months"])
_INVARIABLE = ("yuan", "yen", "jiao", "fen", "jin")
# Names that belong to several units.
_ALSO = {
    "pound": ("GBP", 1.0),
    "镑": ("GBP", 1.0),
    "degree": ("celsius", 1.0),
    "度": ("celsius", 1.0),
    "分": ("time", 60.0),
}
_SYMBOLS: dict[str, list[Unit]] = {}
_ENGLISH: dict[str, list[Unit]] = {}
_CHINESE: dict[str, list[Unit]] = {}


def _plural(word: str) -> str:
    return "" if word in _INVARIABLE else f"{word}es" if word.endswith("ch") else f"{word}s"


def _read_table() -> None:
    for line in _TABLE.split("\n"):
        if not line:
            continue
        dimension, scale, *columns = line.split(" ")
        symbols, english, chinese = (
            [one.replace("~", " ") for one in each.split(",") if one != "-"] for each in columns
        )
        prefer_symbol = dimension not in (TIMES | CURRENCIES) and symbols
        word = symbols[0] if prefer_symbol else english[0]
        unit = Unit(dimension, float(scale), word, (chinese or [""])[0], "" if prefer_symbol else _plural(word))
        if dimension in CURRENCIES and unit.factor == 1:
            CURRENCY_UNITS[dimension] = unit
        for names, found in ((symbols, _SYMBOLS), (english, _ENGLISH), (chinese, _CHINESE)):
            for name in names:
                found.setdefault(name, []).append(unit)
    for name, (dimension, factor) in _ALSO.items():
        for found in (_SYMBOLS, _ENGLISH, _CHINESE):
            if name in found:
                found[name].append(Unit(dimension, factor, name, name))


_read_table()


def _alternatives(names: Iterable[str]) -> str:
    return "|".join(re.escape(name).replace(r"\ ", "[ -]") for name in sorted(names, key=len, reverse=True))


_SYMBOL = f"(?P<symbol>(?:{_alternatives(_SYMBOLS)})(?![A-Za-z0-9²³/^]))"
# The words in the names of units, of which "a" or "one" is surely an amount.
AMOUNT_WORDS = frozenset(
    form
    for name, units in _ENGLISH.items()
    if any(unit.dimension not in TIMES for unit in units)
    for word in re.split("[ -]", name.lower())
    if word not in ("per", "hour", "second", "point")
    for form in (word, f"{word}s", f"{word}es")
)
AMOUNT_SYMBOL = lazy_pattern(rf"(?<![A-Za-z])(?i:an?|one)[ -]{_SYMBOL}")
_FOLDED = {name.lower().replace("-", " "): units for name, units in _ENGLISH.items()}
_ENGLISH_WORDS = [name for name in _ENGLISH if " per " not in name]
_ENGLISH_WORDS += [name.replace("degree ", "degrees ") for name in _ENGLISH_WORDS if name.startswith("degree ")]
# After a number in English: 5 kg, 5-kg, five kilograms, 5-year-old, 10 years'
ENGLISH_UNIT = lazy_pattern(
    rf"[ -]?{_SYMBOL}"
    rf"|[ -](?:of |whole |full |more |long |"
    rf"solid )?(?P<english>(?i:(?:{_alternatives(_ENGLISH_WORDS)})(?:s|(?<=inch)es)?))"
    r"(?P<per>[ -](?:(?i:per|an|a|each)[ -](?i:hour|second)))?(?![A-Za-z])"
)
_LONG_CHINESE = [
    name
    for name in _CHINESE
    if name not in ("兆", "卡", "安", "码", "度", "帕", "伏", "赫", "角", "瓦", "分", "岁", "年")
]
CHINESE_UNIT = lazy_pattern(
    rf" ?(?:{_SYMBOL}|(?P<chinese>{_alternatives(_LONG_CHINESE)}|兆(?!字)|卡(?!车|片|通)|安(?!全|静|装)|"
    rf"码(?!头)|度(?!假|过)|帕|伏|赫|角(?!色|度)|瓦(?!片)|分(?!之|刻|手|裂)|岁(?!月)|年(?!代|级))"
    r"(?P<per>(?:/|每)(?:小时|小時|秒))?)"
)


def english_units(match: re.Match[str]) -> list[Unit]:
    """The possible units that `ENGLISH_UNIT` has found."""
    if match["symbol"]:
        return _SYMBOLS[match["symbol"]]
    word = match["english"].replace("-", " ")
    known = _find_english(word)
    if match["per"]:
        return _per(known, "second" if "second" in match["per"].lower() else "hour")
    return known


def chinese_units(match: re.Match[str]) -> list[Unit]:
    """The possible units that `CHINESE_UNIT` has found."""
    if match["symbol"]:
        return _SYMBOLS[match["symbol"]]
    known = _CHINESE[match["chinese"]]
    return _per(known, "second" if "秒" in match["per"] else "hour") if match["per"] else known


def _find_english(word: str) -> list[Unit]:
    word = word.lower().replace("degrees ", "degree ")
    return next(_FOLDED[form] for form in (word, word.removesuffix("s"), word.removesuffix("es")) if form in _FOLDED)


def _per(units: list[Unit], period: str) -> list[Unit]:
    """The speeds of lengths per hour or second; other units per time are dimensions of their own."""
    factor = 3.6 if period == "second" else 1e-3
    return [
        Unit(
            "speed",
            unit.factor * factor,
            f"{unit.english}/{period[0]}",
            f"{unit.chinese}每{'秒' if period == 'second' else '小时'}",
        )
        if unit.dimension == "length"
        else Unit(f"{unit.dimension}/{period}", unit.factor, "", "")
        for unit in units
    ]


def per_hour(units: list[Unit]) -> list[Unit]:
    """每小时 or 时速 before a length."""
    return _per(units, "hour")
