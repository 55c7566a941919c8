"""A lexical shortlist (Jean et al. 2015, 3.2): the target pieces that a translation may need, by its source pieces.

For each source piece: its most probable translations (learn_shortlist.py) and the identical target piece, so that
names can be copied. For every source: the most frequent target pieces, EOS, and the byte pieces, which can express any
text. In a model folder it is one safetensors file of three arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.errors import ConfigError, ModelFolderError
from regard.model_folder.folder import SHORTLIST, read_shortlist

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """The target pieces of source piece s: pieces[starts[s] : starts[s + 1]]; and those of every source."""

    always: Tokens
    starts: Tokens
    pieces: npt.NDArray[np.int32]

    def allowed(self, sources: Iterable[Sequence[int]], prefixes: Iterable[Sequence[int]] = ()) -> Tokens:
        """Every token that translations of these sources may contain, those of forced prefixes included; sorted."""
        known = {token for ids in sources for token in ids if token < len(self.starts) - 1}
        lists = [self.pieces[self.starts[token] : self.starts[token + 1]] for token in known]
        forced = np.array([token for ids in prefixes for token in ids], np.int64)
        allowed_V = np.zeros(max(self.size, int(forced.max(initial=0)) + 1), bool)  # several times faster than sorting
        allowed_V[np.concatenate([self.always, forced, *lists])] = True
        return np.flatnonzero(allowed_V)

    @cached_property
    def size(self) -> int:
        """One more than the largest token id in it."""
        return int(max(self.always.max(initial=0), self.pieces.max(initial=0))) + 1

    def to_bytes(self) -> bytes:
        """The contents of its file."""
        return save({"always": self.always, "starts": self.starts, "pieces": self.pieces})


def load_shortlist(folder: Path, tgt_size: int) -> Shortlist:
    """The shortlist of a model folder whose checksums have been verified."""
    content = read_shortlist(folder)
    if content is None:
        raise ConfigError(f"{folder} has no shortlist; make one with: regard shortlist {folder} --recipe RECIPE")
    try:
        arrays = load(content)
        found = Shortlist(arrays["always"], arrays["starts"], arrays["pieces"])
    except (SafetensorError, KeyError):
        raise ModelFolderError(
            f"{folder / SHORTLIST} is not a shortlist; make it again with regard shortlist"
        ) from None
    for tokens in (found.always, found.pieces):
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < tgt_size:
            raise ModelFolderError(
                f"{folder / SHORTLIST} belongs to another model: it has piece {tokens.max()}, but the "
                f"model's vocabulary has {tgt_size} pieces; make it again with regard shortlist"
            )
    return found
