"""Search with the engine for the translations of many sentences, on all cores, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from regard.config import DecodeConfig
from regard.decode.batching import plan_batches, share_batches, token_budget
from regard.decode.engine import Engine, Scored
from regard.decode.engine_control import SearchControl
from regard.decode.hypotheses import Hypothesis
from regard.decode.random_numbers import spread_seed
from regard.decode.shortlist import Shortlist
from regard.errors import ConfigError
from regard.tokenizers.special_ids import EOS

Ids = Sequence[int]
# Maximum batch of the engine: larger ones are slower in int8, a little faster in float32, and leave cores idle at the
# end.
ENGINE_TOKENS = 768


def engine_search(
    engine: Engine,
    sources: Sequence[Ids],
    config: DecodeConfig,
    n_best: int = 1,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    shortlist: Shortlist | None = None,
    workers: int | None = None,
    prefixes: Sequence[Ids] | None = None,
    control: SearchControl | None = None,
) -> list[list[Hypothesis]]:
    """What search.py finds. `workers`: how many batches are searched at a time, one core each; None: one per core."""
    workers = workers or count_cores()
    sizes = [len(ids) + 1 for ids in sources]
    budget = token_budget(config, n_best)

    def find(batch: list[int]) -> list[list[Hypothesis]]:
        chosen = [sources[i] for i in batch]
        forced = None if prefixes is None else [prefixes[i] for i in batch]
        searched = engine if shortlist is None else engine.restricted(shortlist.allowed(chosen, forced or ()))
        lengths = [int(config.max_length_ratio * len(ids)) + config.max_length_extra for ids in chosen]
        if forced is not None:  # the prefix does not count towards the maximum length
            lengths = [length + len(prefix) for length, prefix in zip(lengths, forced, strict=True)]
        if engine.longest_target is not None:
            lengths = [min(length, engine.longest_target) for length in lengths]
        ended = [[*ids, EOS] for ids in chosen]
        return search_batch(searched, ended, config, lengths, n_best, forced, batch, control)

    found: dict[int, list[Hypothesis]] = {}
    batches = share_batches(sizes, min(budget, ENGINE_TOKENS), workers) if workers > 1 else plan_batches(sizes, budget)
    if workers > 1 and len(batches) > 1:
        with ThreadPoolExecutor(workers) as pool:
            for batch, results in zip(batches, pool.map(find, batches), strict=True):
                found.update(zip(batch, results, strict=True))
                done(batch)
    else:
        for batch in batches:
            found.update(zip(batch, find(batch), strict=True))
            done(batch)
    return [found[i] for i in range(len(sources))]


def search_batch(
    engine: Engine,
    sources: Sequence[Ids],
    config: DecodeConfig,
    lengths: list[int],
    n_best: int,
    prefixes: Sequence[Ids] | None,
    indices: Sequence[int],
    control: SearchControl | None,
) -> list[list[Hypothesis]]:
    how: dict[str, Any] = {
        **{"length_penalty": config.length_penalty, "rule": config.beam_rule, "max_lengths": lengths},
        **{"no_repeat_ngram": config.no_repeat_ngram, "prefixes": prefixes},
        "control": None if control is None else control.part(indices),
    }
    match config.method:
        case "beam":
            return engine.beam_search(sources, beam=config.beam, n_best=n_best, **how)
        case "sample":
            cut: dict[str, Any] = {"temperature": config.temperature, "top_k": config.top_k, "top_p": config.top_p}
            seeds = spread_seed(config.seed, indices)
            return engine.sample(sources, seeds=seeds, n_samples=n_best, **cut, **how)
        case _:
            assert_never(config.method)


def engine_score(
    engine: Engine,
    sources: Sequence[Ids],
    translations: Sequence[Ids],
    config: DecodeConfig,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    workers: int | None = None,
    head_weights: npt.NDArray[np.float32] | None = None,
) -> list[Scored]:
    """The probability of each given translation, in batches; ids without EOS. `head_weights`: see Engine.score."""
    if len(translations) != len(sources):
        raise ConfigError(f"there are {len(sources)} sources but {len(translations)} translations; give one each")
    longest = [max(len(source), len(target)) + 1 for source, target in zip(sources, translations, strict=True)]

    def find(batch: list[int]) -> list[Scored]:
        ended, given = [[*sources[i], EOS] for i in batch], [translations[i] for i in batch]
        return engine.score(ended, given, config.length_penalty, config.beam_rule, head_weights)

    found: dict[int, Scored] = {}
    batches = plan_batches(longest, min(config.batch_tokens, ENGINE_TOKENS))
    with ThreadPoolExecutor(workers or count_cores()) as pool:
        for batch, results in zip(batches, pool.map(find, batches), strict=True):
            found.update(zip(batch, results, strict=True))
            done(batch)
    return [found[i] for i in range(len(sources))]


def count_cores() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else len(os.sched_getaffinity(0))
