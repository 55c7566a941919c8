"""Amounts and times of day that are translated by rule: 0.5毫克 as 0.5 mg, $5 as 5美元, 下午三点 as 3:00 p.m."""

from __future__ import annotations

from regard.guards.language_pair import LanguagePair
from regard.guards.numbers import MONTHS
from regard.guards.quantities import Quantity
from regard.text.spans import Span

_WITHOUT_SPACE = ("%", "‰")


def find_measures(text: str, pair: LanguagePair) -> list[Span]:
    """The amounts and times of a source that the rules can translate."""
    if not pair.knows_words:
        return []
    found = []
    for one in pair.find_quantities(text, "source"):
        alone = pair.find_quantities(text[one.start : one.stop], "source") if can_translate(one) else []
        # What is understood only with the words around it must not be taken out of them.
        if len(alone) == 1 and alone[0].readings == one.readings and can_translate(alone[0]):
            found.append(Span(one.start, one.stop, "measure"))
    return found


def can_translate(one: Quantity) -> bool:
    if not one.certain:
        return False
    return (
        _clock(one) is not None
        or _month(one) is not None
        or (one.unit is not None and bool(one.unit.english and one.unit.chinese))
    )


def translate_measure(one: Quantity, to_chinese: bool) -> str:
    """The amount or the time in the target language; for quantities that `can_translate` accepts."""
    clock = _clock(one)
    if clock is not None:
        return _write_time(*clock, to_chinese)
    month = _month(one)
    if month is not None:
        return f"{month}月" if to_chinese else MONTHS[month - 1]
    assert one.unit is not None
    number = write_number(one.value)
    if to_chinese:
        sign = one.unit.chinese
        return f"{number}{' ' if sign[:1].isascii() and sign not in _WITHOUT_SPACE else ''}{sign}"
    unit = one.unit.english
    if unit in _WITHOUT_SPACE:
        return number + unit
    return f"{number} {unit if one.value == 1 else one.unit.plural or unit}"


def write_number(value: float) -> str:
    """In digits, with commas from 10,000 on; never with an exponent."""
    if value == int(value):
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    text = f"{value:.9g}"
    return f"{value:.15f}".rstrip("0") if "e" in text else text


def _month(one: Quantity) -> int | None:
    months = [value for dimension, value in one.readings if dimension == "month"]
    is_month = len(months) == 1 and len(one.readings) == 1 and months[0] in range(1, 13)
    return int(months[0]) if is_month else None


def _clock(one: Quantity) -> tuple[int, bool] | None:
    """The minutes since midnight, and whether it is sure which half of the day is meant."""
    exact = [at for dimension, at in one.readings if dimension == "clock" and isinstance(at, float)]
    either = [at for dimension, at in one.readings if dimension == "clock12" and isinstance(at, float)]
    plain = any(dimension == "number" for dimension, _ in one.readings)
    if plain or not (exact or either):
        return None
    return (int(exact[0]), True) if len(exact) == 1 and not either else (int((either or sorted(exact))[0]), False)


def _write_time(minutes: int, exact: bool, to_chinese: bool) -> str:
    hours, rest = divmod(minutes, 60)
    if not exact:
        hours = hours or 12
        return f"{hours}点{f'{rest}分' if rest else ''}" if to_chinese else f"{hours}:{rest:02}"
    if to_chinese:
        return (
            f"{hours}点{f'{rest}分' if rest else '整'}"
            if hours > 12 or hours == 0
            else f"{'上午' if hours < 12 else '中午'}{hours}点{f'{rest}分' if rest else ''}"
        )
    return f"{hours % 12 or 12}:{rest:02} {'a.m.' if hours < 12 else 'p.m.'}"
