"""Search with the engine for the translations of many sentences, on all cores, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from regard.config import DecodeConfig
from regard.decode.batching import plan_batches, share_batches, token_budget
from regard.decode.checks import check_beam_options, check_lengths
from regard.decode.engine import Engine
from regard.decode.hypotheses import Hypothesis
from regard.decode.shortlist import Shortlist
from regard.tokenizers.special_ids import EOS

Ids = Sequence[int]
# Maximum batch of the engine: larger ones are slower in int8, a little faster in float32, and leave cores idle at the
# end.
ENGINE_TOKENS = 768


def fits_engine(config: DecodeConfig, prefixes: Sequence[Ids] | None) -> bool:
    """Whether the engine has the search; if not, the one in Python uses the engine step by step (search.py)."""
    return (
        config.method == "beam"
        and config.beam_rule == "paper"
        and not config.no_repeat_ngram
        and not any(prefixes or ())
    )


def engine_search(
    engine: Engine,
    sources: Sequence[Ids],
    config: DecodeConfig,
    n_best: int = 1,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    shortlist: Shortlist | None = None,
    workers: int | None = None,
) -> list[list[Hypothesis]]:
    """What search.py finds. `workers`: how many batches are searched at a time, one core each; None: one per core."""
    check_beam_options(config.beam, config.length_penalty, n_best)
    workers = workers or count_cores()
    sizes = [len(ids) + 1 for ids in sources]
    budget = token_budget(config, n_best)

    def find(batch: list[int]) -> list[list[Hypothesis]]:
        chosen = [sources[i] for i in batch]
        searched = engine if shortlist is None else engine.restricted(shortlist.allowed(chosen))
        lengths = [int(config.max_length_ratio * len(ids)) + config.max_length_extra for ids in chosen]
        if engine.longest_target is not None:
            lengths = [min(length, engine.longest_target) for length in lengths]
        check_lengths(lengths, len(chosen))
        ended = [[*ids, EOS] for ids in chosen]
        return searched.beam_search(ended, config.beam, config.length_penalty, lengths, n_best)

    found: dict[int, list[Hypothesis]] = {}
    if workers > 1:
        batches = share_batches(sizes, min(budget, ENGINE_TOKENS), workers)
        with ThreadPoolExecutor(workers) as pool:
            for batch, results in zip(batches, pool.map(find, batches), strict=True):
                found.update(zip(batch, results, strict=True))
                done(batch)
    else:
        for batch in plan_batches(sizes, budget):
            found.update(zip(batch, find(batch), strict=True))
            done(batch)
    return [found[i] for i in range(len(sources))]


def count_cores() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else len(os.sched_getaffinity(0))
