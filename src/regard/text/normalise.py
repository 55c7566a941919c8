"""Unicode normalisation, applied to every text before any other processing.

NFKC would change too much: it turns m² into m2, ½ into 1⁄2, ℃ into °C, the Thai ำ into two characters and Chinese
punctuation into ASCII. Here only variants of the same character are folded (full-width letters and digits, half-width
katakana, ligatures, mathematical alphabets, presentation forms, unusual spaces); everything else is NFC. The result
has no control characters, no stray invisible characters and no "▁", which SentencePiece uses for a space: so a
tokenizer can restore it exactly.
"""

from __future__ import annotations

import functools
import unicodedata

from regard.text.patterns import lazy_pattern

SPACE_MARK = "\u2581"

_FOLDED_TAGS = frozenset(
    ["<wide>", "<narrow>", "<font>", "<noBreak>", "<small>", "<initial>", "<medial>", "<final>", "<isolated>"]
)
# Characters that Unicode tags only as <compat>: µ, Latin digraphs, CJK radicals, Latin to Hebrew ligatures.
_FOLDED_COMPAT = (
    (0x00B5, 0x00B5),
    (0x0132, 0x0133),
    (0x013F, 0x0140),
    (0x01C4, 0x01CC),
    (0x01F1, 0x01F3),
    (0x2E80, 0x2FDF),
    (0xFB00, 0xFB4F),
)
_NOT_FOLDED = frozenset("！（），：；？［］｛｝～")
_LETTERLIKE = range(0x2100, 0x2150)  # ℃, №, ℵ, ℝ … differ in meaning from the letters they resemble

_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_EMOJI = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_EMOJI_UNIT = f"{_EMOJI}[\U0001f3fb-\U0001f3ff]?[\ufe0e\ufe0f]?"
# Arabic, Indic, Burmese and Khmer use joiners between letters: Persian می‌خواهم is not میخواهم.
_JOINING = "[\u0600-\u0dff\u1000-\u109f\u1780-\u17ff]"
_INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_MEANINGFUL_OR_INVISIBLE = lazy_pattern(
    f"(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"  # the flags of England, Scotland, Wales
    f"|{_EMOJI_UNIT}(?:\u200d{_EMOJI_UNIT})*"
    "|[0-9#*]\ufe0f?\u20e3"
    f"|(?<={_JOINING})[\u200c\u200d](?={_JOINING}))"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # a terminal colour as a whole, so that no "[31m" remains
    f"|[{_INVISIBLE}]"
)
_HAS_INVISIBLE = lazy_pattern(f"[{_INVISIBLE}]")
# A quick look: ASCII, Han characters and the usual punctuation of Chinese. Only their white space is changed.
_PLAIN = lazy_pattern("[ -~\u4e00-\u9fff\u3001-\u3011\u2014\u2018-\u201d\u2026！（），：；？～]*")


def is_plain(text: str) -> bool:
    """Whether there is nothing to normalise but white space; false for some of such texts."""
    return (text.isascii() and text.isprintable()) or _PLAIN.fullmatch(text) is not None


def normalise(text: str) -> str:
    """Normalise `text`. Idempotent."""
    if is_plain(text):
        return " ".join(text.split())
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = unicodedata.normalize("NFC", text.translate(_FOLD))
    while _HAS_INVISIBLE.search(text):
        # Removing a character can bring combining marks together, which NFC then reorders, and this can leave a joiner
        # without its letters. Repeat until nothing changes; real text needs one pass.
        cleaned = unicodedata.normalize("NFC", _MEANINGFUL_OR_INVISIBLE.sub(lambda match: match[1] or "", text))
        if cleaned == text:
            break
        text = cleaned
    return " ".join(text.split())


class _Fold(dict[int, str]):
    """The folded form of each character, computed on first use."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold(chr(code))
        return folded


_FOLD = _Fold()
_ASSIGNED = range(0x40000)  # beyond it, no character is folded


@functools.cache
def folded_characters() -> dict[str, str]:
    """Every character that is folded, with its folded form."""
    characters = (chr(code) for code in _ASSIGNED if not 0xD800 <= code < 0xE000)
    return {character: folded for character in characters if (folded := _fold(character)) != character}


def _fold(character: str) -> str:
    if character == SPACE_MARK:
        return "_"
    if character.isspace():
        return " "
    tag, *codes = unicodedata.decomposition(character).split() or [""]
    if not tag.startswith("<") or not _is_folded(character, tag):
        return character
    expansion = "".join(chr(int(code, 16)) for code in codes)
    # ´ and similar marks expand to a space and a mark, ﷺ to a whole phrase: these are not folded.
    return character if " " in expansion else "".join(map(_fold, expansion))


def _is_folded(character: str, tag: str) -> bool:
    code = ord(character)
    if character in _NOT_FOLDED or code in _LETTERLIKE:
        return False
    return tag in _FOLDED_TAGS or any(low <= code <= high for low, high in _FOLDED_COMPAT)
