"""Sentence and clause splitting, splitting of long texts, and joining.

Rule-based. Where a boundary is uncertain, two sentences stay together rather than one being cut in half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from regard.text.language import base_language
from regard.text.patterns import lazy_pattern

_UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "km", "yue", "wuu", "lzh"})

_CLOSERS = "”’」』）》】〉〕\\])\"'»"
_SPACED = ".!?؟۔।॥"  # end a sentence only if white space follows
_END = lazy_pattern(
    f"(?P<cjk>[。！？｡]+[{_CLOSERS}]*)"
    f"|(?P<dots>…+[{_CLOSERS}]*)"
    f"|(?<![{_SPACED}])(?P<spaced>[{_SPACED}]++[{_CLOSERS}]*+)(?=\\s|$)"  # possessive: else quadratic time
    r"|(?P<paragraph>\n[^\S\n]*\n)"
)
_CJK = lazy_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LAST_WORD = lazy_pattern(r"[^\s(\[“\"'‘«]*$")
_INITIAL = lazy_pattern(r"(?!i)[^\W\d_]")  # not I: "so do I." is more common than the initial I.
_INNER_DOT = lazy_pattern(r"[^\W\d_]\.[^\W\d_]")
_BEFORE_NAMES = frozenset(
    ["mr", "mrs", "ms", "dr", "prof", "st", "rev", "gen", "col", "lt", "sgt", "capt", "gov", "sen"]
)
_BEFORE_NAMES |= {"hon", "mt", "vs", "cf", "hr", "fr", "frl", "mme", "mlle", "bzw", "vgl", "ggf", "evtl", "bspw", "sog"}
_BEFORE_NUMBERS = frozenset(["no", "nos", "nr", "vol", "pp", "ch", "fig", "figs", "eq", "art", "abs", "bd", "ca"])
_BEFORE_NUMBERS |= {"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "approx"}
_ELLIPSIS_AFTER = 4  # characters: "我……" at the beginning is a hesitation, not a sentence

_CLAUSE_MARK = lazy_pattern("[，、；：,;:]")
CLAUSE_MARKS = "，；：、,;:—"
_CLAUSE_END = lazy_pattern(f"[{CLAUSE_MARKS}]+")
_SPACE = lazy_pattern(r"\s+")
_LATIN, _LATIN_OR_POINT = lazy_pattern("[A-Za-z0-9À-ɏ]"), lazy_pattern("[A-Za-z0-9À-ɏ.,]")


def split_sentences(text: str) -> list[str]:
    """Split `text` into sentences. Closing quotation marks stay with their sentence.

    Only the white space between sentences is lost; `join_sentences` inserts a space, or nothing, in its place.
    """
    return _stripped(text, [0, *_sentence_ends(text, 0, len(text))])


def join_sentences(parts: Sequence[str], lang: str) -> str:
    """Join sentences with a space between them, or without one in languages that write no spaces."""
    text = ""
    for part in filter(None, parts):
        text += (space_between(text, part) if is_unspaced(lang) else " " * bool(text)) + part
    return text


def space_between(before: str, after: str) -> str:
    """A space if joining would merge two Latin words or numbers: "Tom" + "Tom", "1," + "000". Else an empty string."""
    return " " if _LATIN_OR_POINT.match(before[-1:]) and _LATIN.match(after[:1]) else ""


def is_unspaced(lang: str) -> bool:
    """Whether the language writes no spaces between words."""
    return base_language(lang) in _UNSPACED


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split `text` into pieces for each of which `fits` is true.

    Each piece has as many whole sentences as fit; a sentence that does not fit is split into clauses, a clause into
    words, a word into characters. Only white space at the ends of pieces is lost. A single character that does not fit
    is kept.
    """
    if not text.strip():
        return []
    if fits(text.strip()):
        return [text.strip()]
    return _stripped(text, [0, *_cuts(text, 0, len(text), fits, 0)])


def split_clauses(text: str) -> list[str]:
    """Split each sentence of `text` after commas, colons and similar marks."""
    return [clause for one in split_sentences(text) for clause in _stripped(one, [0, *_clause_ends(one, 0, len(one))])]


def _cuts(text: str, start: int, stop: int, fits: Callable[[str], bool], level: int) -> list[int]:
    """Where to cut text[start:stop] into runs of units of this level; a unit that is too long is cut at the next."""
    ends = _LEVELS[level](text, start, stop)
    cuts: list[int] = []
    done = 0
    while done < len(ends):
        count = _most_that_fit(text, start, ends, done, fits)
        if not count:
            count = 1
            if level + 1 < len(_LEVELS):
                cuts.extend(_cuts(text, start, ends[done], fits, level + 1))
        done += count
        start = ends[done - 1]
        if not cuts or cuts[-1] < start:
            cuts.append(start)
    return cuts


def _most_that_fit(text: str, start: int, ends: Sequence[int], done: int, fits: Callable[[str], bool]) -> int:
    """How many units after `done` fit together. Galloping search, to call `fits` rarely."""
    low, high, limit = 0, 1, len(ends) - done
    while high <= limit and fits(text[start : ends[done + high - 1]].strip()):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(text[start : ends[done + middle - 1]].strip()):
            low = middle
        else:
            high = middle
    return low


def _stripped(text: str, cuts: Sequence[int]) -> list[str]:
    parts = (text[start:stop].strip() for start, stop in pairwise(cuts))
    return [part for part in parts if part]


def _sentence_ends(text: str, start: int, stop: int) -> list[int]:
    ends: list[int] = []
    for match in _END.finditer(text, start, stop):
        begun = ends[-1] if ends else start
        if _ends_sentence(text, begun, match):
            ends.append(match.end())
    return [*ends, stop] if not ends or ends[-1] < stop else ends


def _ends_sentence(text: str, begun: int, match: re.Match[str]) -> bool:
    if match["cjk"] or match["paragraph"]:
        return True
    following = _next_visible(text, match.end())
    if match["dots"]:
        before = text[max(begun, match.start() - _ELLIPSIS_AFTER) : match.start()].strip()
        after_cjk = len(before) >= _ELLIPSIS_AFTER and _CJK.match(before[-1]) is not None
        spaced = text[match.end() : match.end() + 1].isspace()
        return (after_cjk and not _CLAUSE_MARK.match(following)) or (spaced and not following.islower())
    # A lower-case letter continues the sentence: after an unknown abbreviation, or in "Stop!" he said.
    if following.islower():
        return False
    return not (match["spaced"].startswith(".") and _is_abbreviation(text, begun, match.start(), following))


def _next_visible(text: str, at: int) -> str:
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return text[at : at + 1]


def _is_abbreviation(text: str, begun: int, dot: int, following: str) -> bool:
    """Whether the full stop at `dot` belongs to the word before it: Dr., J., e.g., No. 5, or the "1." of a list."""
    found = _LAST_WORD.search(text[max(begun, dot - 24) : dot])
    word = found[0].lower() if found else ""
    if word.isdigit():
        return text[begun:dot].strip() == word
    if word in _BEFORE_NUMBERS:
        return following.isdigit()
    return bool(word in _BEFORE_NAMES or _INITIAL.fullmatch(word) or _INNER_DOT.search(word))


def _clause_ends(text: str, start: int, stop: int) -> list[int]:
    # An ASCII mark ends a clause only before a space, so that "1,000" and "12:30" are not cut.
    found = _CLAUSE_END.finditer(text, start, stop)
    ends = [m.end() for m in found if not m[0][-1].isascii() or text[m.end() : m.end() + 1].isspace()]
    return [*ends, stop] if not ends or ends[-1] < stop else ends


def _word_ends(text: str, start: int, stop: int) -> list[int]:
    ends = [match.end() for match in _SPACE.finditer(text, start, stop)]
    return [*ends, stop] if not ends or ends[-1] < stop else ends


def _character_ends(text: str, start: int, stop: int) -> Sequence[int]:
    return range(start + 1, stop + 1)


_LEVELS: tuple[Callable[[str, int, int], Sequence[int]], ...] = (
    _sentence_ends,
    _clause_ends,
    _word_ends,
    _character_ends,
)
