"""Learning a shortlist (shortlist.py) from training pairs: translations of pieces by IBM Model 1, and frequencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.ibm_model_1 import learn_dictionary
from regard.data.prepare import Say
from regard.data.store import PairStore
from regard.decode.shortlist import Shortlist, Tokens
from regard.text.normalise import SPACE_MARK
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

TRANSLATIONS = 100  # per source piece
FREQUENT = 400
COUNTED_AT_ONCE = 1 << 22


def learn_shortlist(
    stores: Sequence[PairStore],
    tokenizer: TokenizerPair,
    say: Say,
    translations: int = TRANSLATIONS,
    frequent: int = FREQUENT,
) -> Shortlist:
    """From training pairs: `translations` pieces per source piece, and the `frequent` most frequent ones."""
    src_size, tgt_size = tokenizer.src.size, tokenizer.tgt.size
    most_frequent = np.argsort(-count_pieces(stores, tgt_size), kind="stable")[:frequent]
    always = np.unique(np.concatenate([[PAD, UNK, BOS, EOS], most_frequent, writing_pieces(tokenizer)]))
    dictionary = learn_dictionary(stores, src_size, tgt_size, translations, say)
    same = {piece: token for token, piece in enumerate(tokenizer.tgt.pieces(range(tgt_size)))}
    lists = []
    for token, piece in enumerate(tokenizer.src.pieces(range(src_size))):
        itself = np.array([same[piece]] if piece in same else [], np.int32)
        lists.append(np.setdiff1d(np.concatenate([dictionary[token], itself]), always).astype(np.int32))
    starts = np.cumsum([0, *map(len, lists)])
    return Shortlist(always.astype(np.int64), starts.astype(np.int64), np.concatenate(lists))


def count_pieces(stores: Sequence[PairStore], size: int) -> Tokens:
    """How often each target piece occurs."""
    counts = np.zeros(size, np.int64)
    for store in stores:
        for start in range(0, store.tgt.total, COUNTED_AT_ONCE):
            counts += np.bincount(store.tgt.values[start : start + COUNTED_AT_ONCE], minlength=size)
    return counts


def writing_pieces(tokenizer: TokenizerPair) -> list[int]:
    """The pieces that can express any text, in a vocabulary with byte pieces: the bytes and the space."""
    target = tokenizer.tgt
    pieces = target.pieces(range(target.size))
    return [token for token, piece in enumerate(pieces) if piece == SPACE_MARK or target.kind_of(token) == "byte"]
