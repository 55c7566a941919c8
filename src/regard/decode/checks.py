"""What every search checks: its options, the lengths and prefixes of its sentences, and what it never generates."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import ConfigError, RegardError
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

SUPPRESSED_IDS = [PAD, UNK, BOS]
HUGGINGFACE_SUPPRESSED_IDS = [PAD, BOS]  # by the rule "huggingface", which may produce UNK


def check_beam_options(beam: int, length_penalty: float, n_best: int) -> None:
    if beam < 1:
        raise ConfigError(f"beam = {beam} is too small; the least is 1, which is greedy search")
    if not length_penalty >= 0:
        raise ConfigError(f"length_penalty = {length_penalty} is too small; the least is 0, which is no penalty")
    if not 1 <= n_best <= beam:
        raise ConfigError(f"n_best = {n_best} is not possible with beam = {beam}; it must be from 1 to the beam")


def check_sampling_options(temperature: float, top_k: int, top_p: float, n_samples: int) -> None:
    if not temperature > 0:
        raise ConfigError(f"temperature = {temperature} is not possible; it must be above 0 (top_k = 1 is greedy)")
    if top_k < 0:
        raise ConfigError(f"top_k = {top_k} is too small; the least is 0, which turns it off")
    if not 0 <= top_p <= 1:
        raise ConfigError(f"top_p = {top_p} is not possible; it must be from 0 to 1, and 1 turns it off")
    if n_samples < 1:
        raise ConfigError(f"n_samples = {n_samples} is too small; the least is 1")


def check_lengths(lengths: Sequence[int], sentences: int) -> None:
    """One maximum length per sentence, each at least 1."""
    if len(lengths) != sentences:
        raise ConfigError(f"there are {sentences} sentences but {len(lengths)} maximum lengths; give one each")
    if lengths and min(lengths) < 1:
        raise ConfigError(f"a maximum length of {min(lengths)} leaves no room for any token; the least is 1")


def check_prefixes(prefixes: Sequence[Sequence[int]], lengths: Sequence[int]) -> None:
    """One forced prefix per sentence, each shorter than the maximum length."""
    if len(prefixes) != len(lengths):
        raise ConfigError(f"there are {len(lengths)} sentences but {len(prefixes)} prefixes; give one each")
    for number, (prefix, length) in enumerate(zip(prefixes, lengths, strict=True), start=1):
        check_ids(prefix, f"the forced prefix of sentence {number}")
        if len(prefix) >= length:
            raise ConfigError(
                f"the forced prefix of sentence {number} has {len(prefix)} tokens, which leaves no room "
                f"within its maximum length of {length}; shorten the prefix or raise the maximum"
            )


def check_ids(ids: Sequence[int], what: str) -> None:
    """Refuse special ids, which only the search itself may add."""
    for name, special in (("padding", PAD), ("begin", BOS), ("end", EOS)):
        if special in ids:
            raise ConfigError(f"{what} contains the {name} token (id {special}); give the ids of the text only")


def non_finite_error(place: int) -> RegardError:
    """The error for logits that are not finite at target token `place`, counted from 1."""
    return RegardError(
        f"the model produced NaN or infinity at target token {place}: "
        "its weights are corrupt, or the precision is too low for it (try float32)"
    )
