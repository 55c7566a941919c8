"""What a translation changes of the numbers, units and negations of its source, and the note that says so."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from regard.guards.chinese import CHINESE
from regard.guards.language_pair import LanguagePair
from regard.guards.quantities import Quantity, differences, lost_ranges
from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern

# 30多年: more than 30 years
_APPROXIMATE_ZH = lazy_pattern(
    "[0-9二三四五六七八九十百千万亿](?:多|余)(?![少数])|(?:超过|超過)(?=[0-9一二三四五六七八九十百千两几])"
)
_APPROXIMATE_EN = lazy_pattern(
    r"\b(?:more|over|above|some|about|odd|least|exceed\w*|several|dozens|tens|hundreds|thousands|millions|nearly|almost|"
    r"late|beyond|upwards?|past|plus|around|roughly|billions|than|greater|surpass\w*|top(?:ped|s)?|pass(?:ed|es)?)\b|"
    r"\+|teens|ties\b",
    re.IGNORECASE,
)
_DASHES = ("-", "–", "—", "~", "～")  # "to" may join numbers that are no range: switch from 3D to 2D
_MOST_NAMED = 5  # changes in one note


@dataclass(frozen=True)
class Change:
    """Something of the source that the translation has otherwise, lacks, or adds."""

    source: str  # as written; "" if it is not in the source
    translation: str  # "" if it is not in the translation

    def __str__(self) -> str:
        if not self.translation:
            return f'"{self.source}" is missing'
        return f'"{self.source}" became "{self.translation}"' if self.source else f'"{self.translation}" was added'


def find_changes(source: str, translation: str, pair: LanguagePair) -> list[Change]:
    """All changes of numbers with their units, and of negations."""
    missing, added = changed_quantities(source, translation, pair)
    quantities = zip_longest((one.of(source) for one in missing), (one.of(translation) for one in added), fillvalue="")
    changes = [Change(*texts) for texts in quantities] or changed_ranges(source, translation, pair)
    changes = changes or added_ranges(source, translation, pair)
    approximate = _APPROXIMATE_ZH.search(translation)
    if approximate and pair.knows_words and pair.target is CHINESE and not _APPROXIMATE_EN.search(source):
        changes.append(Change("", approximate[0]))
    negation = changed_negation(source, translation, pair)
    return [*changes, negation] if negation else changes


@cached_by_text
def changed_quantities(source: str, translation: str, pair: LanguagePair) -> tuple[list[Quantity], list[Quantity]]:
    """The quantities of the source that are not in the translation, and those of the translation not in the source."""
    if not pair.may_have_quantities(source, "source") and not pair.may_have_quantities(translation, "target"):
        return [], []
    return differences(pair.find_quantities(source, "source"), pair.find_quantities(translation, "target"))


def changed_ranges(source: str, translation: str, pair: LanguagePair) -> list[Change]:
    """Ranges whose numbers are there, but not as a range: "4–5 km" became "4 km 5 km"."""
    if not pair.may_have_quantities(source, "source"):
        return []
    ranges = lost_ranges(pair.find_quantities(source, "source"), pair.find_quantities(translation, "target"))
    return [Change(source[low.start : high.stop], "separate numbers") for low, high in ranges]


def added_ranges(source: str, translation: str, pair: LanguagePair) -> list[Change]:
    """Numbers that a dash joins, but not in the source: "6 p.m." and "4" became "6 p.m.-4"."""
    if not pair.knows_words or not pair.may_have_quantities(translation, "target"):
        return []
    wanted = [  # 七八: seven or eight
        one if one.to_next or one.stop != after.start else dataclasses.replace(one, to_next="possible")
        for one, after in pairwise([*pair.find_quantities(source, "source"), Quantity(-1, -1, frozenset())])
    ]
    ranges = lost_ranges(pair.find_quantities(translation, "target"), [*wanted, Quantity(-1, -1, frozenset())])
    joined = [(low, high) for low, high in ranges if translation[low.stop : high.start].strip() in _DASHES]
    return [Change("", translation[low.start : high.stop]) for low, high in joined]


def changed_negation(source: str, translation: str, pair: LanguagePair) -> Change | None:
    """A negation that only one of the two has."""
    if not pair.knows_words:
        return None
    if not pair.source.may_have_negations(source) and not pair.target.may_have_negations(translation):
        return None
    wanted, found = pair.source.find_negations(source), pair.target.find_negations(translation)
    more = len(wanted.certain) - len(found.certain)
    if more > 0 and more > found.possible:
        return Change(wanted.certain[-1], "")
    if more < 0 and -more > wanted.possible:
        return Change("", found.certain[-1])
    return None


def write_note(changes: Sequence[Change]) -> str:
    """A sentence that names the changes; empty if there are none."""
    if not changes:
        return ""
    named = ", ".join(str(change) for change in changes[:_MOST_NAMED])
    more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return f"check numbers, units and negations: {named}{more}"
