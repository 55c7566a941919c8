"""Word alignment read off cross-attention: which source word each target word looked at.

A word starts at SentencePiece's space mark; a Chinese, Japanese or Korean piece is a word of its own, since
those scripts do not mark words.

Shapes: L target length, M source length.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

SPACE = "▁"


def word_alignment(
    weights_LM: np.ndarray, src_pieces: Sequence[str], tgt_pieces: Sequence[str]
) -> list[tuple[int, int]]:
    """(source word, target word) links, sorted: each target piece goes with the source piece it looks at most.

    The weights may have more rows and columns than pieces (the end of the sentence): those are not words.
    """
    weights_LM = weights_LM[: len(tgt_pieces), : len(src_pieces)]
    if not weights_LM.size:
        return []
    src_word, tgt_word = word_numbers(src_pieces), word_numbers(tgt_pieces)
    return sorted({(src_word[int(row.argmax())], tgt_word[j]) for j, row in enumerate(weights_LM)})


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """The number of the word that each piece belongs to."""
    numbers: list[int] = []
    current, after_ideograph = -1, True
    for piece in pieces:
        ideograph = is_ideographic(piece)
        if piece.startswith(SPACE) or ideograph or after_ideograph:
            current += 1
        numbers.append(current)
        after_ideograph = ideograph
    return numbers


def words(pieces: Sequence[str]) -> list[str]:
    """The words that `word_numbers` counts, as text."""
    found: list[str] = []
    for piece, number in zip(pieces, word_numbers(pieces), strict=True):
        if number == len(found):
            found.append("")
        found[number] += piece.replace(SPACE, "")
    return found


def is_ideographic(piece: str) -> bool:
    names = (unicodedata.name(character, "") for character in piece)
    return any(name.startswith(("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "HANGUL")) for name in names)
