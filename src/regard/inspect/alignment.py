"""Word alignment from cross-attention: the source word to which each target word attends most.

A word starts at SentencePiece's space mark; a piece in Chinese, Japanese, Thai or another script without
spaces is a word of its own.

Shapes: L target length, M source length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from regard.text.normalise import SPACE_MARK

BYTE = re.compile("<0x([0-9A-F]{2})>")
UNSPACED = ("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")


def word_alignment(
    weights_LM: np.ndarray, src_pieces: Sequence[str], tgt_pieces: Sequence[str]
) -> list[tuple[int, int]]:
    """Sorted (source word, target word) links: each target piece is linked to the source piece it attends to most.

    The weights may have more rows and columns than pieces (the end token): those are ignored.
    """
    weights_LM = weights_LM[: len(tgt_pieces), : len(src_pieces)]
    if not weights_LM.size:
        return []
    src_word, tgt_word = word_numbers(src_pieces), word_numbers(tgt_pieces)
    return sorted({(src_word[int(row.argmax())], tgt_word[j]) for j, row in enumerate(weights_LM)})


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """The number of the word that each piece belongs to."""
    numbers: list[int] = []
    current, blank, after_unspaced = -1, False, True
    for piece in pieces:
        unspaced = is_unspaced(piece)
        # A lone space mark belongs to the piece after it.
        if not blank and (piece.startswith(SPACE_MARK) or unspaced or after_unspaced):
            current += 1
        numbers.append(current)
        blank, after_unspaced = piece == SPACE_MARK, unspaced
    return numbers


def words(pieces: Sequence[str]) -> list[str]:
    """The words that `word_numbers` counts, as text."""
    found: list[bytes] = []
    for piece, number in zip(pieces, word_numbers(pieces), strict=True):
        if number == len(found):
            found.append(b"")
        byte = BYTE.fullmatch(piece)  # of a character that the vocabulary lacks
        found[number] += bytes.fromhex(byte[1]) if byte else piece.replace(SPACE_MARK, "").encode()
    return [word.decode("utf-8", "replace") for word in found]


def is_unspaced(piece: str) -> bool:
    return any(unicodedata.name(character, "").startswith(UNSPACED) for character in piece)
