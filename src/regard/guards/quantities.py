"""Quantities: the numbers of a text with their units, and how those of a source and its translation are compared.

A quantity has readings, each a dimension and a value in its base unit: "3 m" is ("length", 3) or ("number", 3e6). Two
quantities are equal if they share a reading. A *certain* quantity must have an equal one on the other side; others,
such as "a", "both" or 一, may be the equal of a certain one but need none themselves.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from regard.guards.units import Unit
from regard.text.patterns import lazy_pattern

# ("number", 3.0) without a unit; ("mass", 3.0); ("clock", minutes); ("ratio", 0.5); ("code", "v2.3.1")
Reading = tuple[str, float | str]
RangeMark = Literal["", "certain", "possible"]  # whether a range begins with this quantity and ends with the next: 3–5
_RANGE = lazy_pattern(r" ?(?:(?P<certain>[-–—~～到至]|to(?= ))|(?:and|or|或者?|到|至|还是)) ?")
_MOST_MATCHED = 100  # beyond this many quantities without an identical one, no exchange of partners is tried


@dataclass(frozen=True)
class Quantity:
    start: int
    stop: int  # of the number with its sign and unit
    readings: frozenset[Reading]
    certain: bool = True
    number: tuple[int, int] = (0, 0)  # start and stop of the number alone
    unit: Unit | None = None  # the likeliest one, of which it has `value`
    value: float = 0.0
    to_next: RangeMark = ""
    as_source: frozenset[Reading] = frozenset()  # more readings, which only a source may have

    @property
    def is_code(self) -> bool:
        return any(dimension == "code" for dimension, _ in self.readings)

    def of(self, text: str) -> str:
        return text[self.start : self.stop].strip(" -") if self.stop > self.start else ""


def reading(dimension: str, value: float) -> Reading:
    """A reading whose value is equal to another if it differs by an error of rounding only."""
    return dimension, float(f"{value:.9g}")


def negative(readings: frozenset[Reading]) -> frozenset[Reading]:
    return frozenset((one, -value if isinstance(value, float) else f"-{value}") for one, value in readings)


def mark_ranges(text: str, found: list[Quantity]) -> None:
    """Set `to_next` of quantities in order."""
    for at, (one, after) in enumerate(pairwise(found)):
        between = _RANGE.fullmatch(text, one.stop, after.start)
        if between:
            certain = between["certain"] and one.certain and after.certain and one.unit is None
            found[at] = dataclasses.replace(one, to_next="certain" if certain else "possible")


def lost_ranges(source: Sequence[Quantity], target: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """The first and last quantity of each range of the source that is no range in the target."""
    found = [(one, after) for one, after in pairwise(target) if one.to_next]
    return [
        (low, high)
        for low, high in pairwise(source)
        if low.to_next == "certain"
        and not any(low.readings & one.readings and high.readings & after.readings for one, after in found)
    ]


def differences(source: Sequence[Quantity], target: Sequence[Quantity]) -> tuple[list[Quantity], list[Quantity]]:
    """The certain quantities of the source without an equal in the target, and those of the target without one."""
    target = sorted(target, key=lambda one: not one.certain)  # certain ones are the preferred partners
    wanted = [one.readings | one.as_source for one in source]
    partners = _match(wanted, [one.readings for one in target], [one.certain for one in source])
    missing = [one for at, one in enumerate(source) if one.certain and at not in partners]
    taken = set(partners.values())
    rest = [at for at, one in enumerate(target) if one.certain and at not in taken]
    free = [at for at, one in enumerate(source) if at not in partners and not one.certain]
    added = []
    for at in rest:
        partner = next((other for other in free if wanted[other] & target[at].readings), None)
        if partner is None:
            added.append(target[at])
        else:
            free.remove(partner)
    return missing, sorted(added, key=lambda one: one.start)


def _match(
    wanted: Sequence[frozenset[Reading]], found: Sequence[frozenset[Reading]], certain: Sequence[bool]
) -> dict[int, int]:
    """The largest one-to-one assignment of certain wanted quantities to found ones."""
    partners: dict[int, int] = {}
    by_readings: dict[frozenset[Reading], list[int]] = defaultdict(list)
    for at in reversed(range(len(found))):
        by_readings[found[at]].append(at)
    for at, readings in enumerate(wanted):
        if certain[at] and by_readings.get(readings):
            partners[at] = by_readings[readings].pop()
    taken = {other: at for at, other in partners.items()}
    exchange = len(wanted) + len(found) <= _MOST_MATCHED
    by_reading: dict[Reading, list[int]] = defaultdict(list)
    for at, readings in enumerate(found):
        for one in readings:
            by_reading[one].append(at)

    def candidates(at: int) -> Iterable[int]:
        return dict.fromkeys(other for one in sorted(wanted[at], key=str) for other in by_reading.get(one, ()))

    def assign(at: int, tried: set[int]) -> bool:
        for other in candidates(at):
            if other in tried or (other in taken and not exchange):
                continue
            tried.add(other)
            if other not in taken or assign(taken[other], tried):
                taken[other] = at
                return True
        return False

    for at in range(len(wanted)):
        if certain[at] and at not in partners:
            assign(at, set())
    return {at: other for other, at in taken.items()}
