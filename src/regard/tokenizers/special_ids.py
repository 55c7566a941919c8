"""The special ids that every vocabulary for translation has, and the check of ids against a vocabulary's size."""

from __future__ import annotations

from collections.abc import Sequence

PAD, UNK, BOS, EOS = 0, 1, 2, 3
MASK_PIECE = "[MASK]"  # the mask token in a text, for vocabularies that have one


def checked_ids(ids: Sequence[int], size: int) -> list[int]:
    """The ids as Python integers; ValueError if one is not in a vocabulary of this size."""
    checked = [int(i) for i in ids]
    for i in checked:
        if not 0 <= i < size:
            raise ValueError(f"id {i} is not in this vocabulary: its ids range from 0 to {size - 1}")
    return checked
