"""Many sentences through a search: cut into batches of like length, searched as asked, put back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import assert_never

import torch
from torch import Tensor

from regard.config import DecodeConfig
from regard.decode.batching import plan_batches, share_batches
from regard.decode.beam import BeamStep, beam_search
from regard.decode.engine import Engine
from regard.decode.hypotheses import Hypothesis
from regard.decode.protocols import SearchModel, State, limit_lengths
from regard.decode.restricted import restrict
from regard.decode.sampling import sample_search, spread_seed
from regard.decode.shortlist import Shortlist
from regard.tokenizers.special_ids import EOS, PAD

Ids = Sequence[int]
# An engine's batch, at most: int8 is slower beyond, float32 a little faster, and the last batches keep a core waiting.
ENGINE_TOKENS = 768


def pad_sources(sources: Sequence[Ids], device: torch.device) -> Tensor:
    """src_BM: each source with its EOS, padded on the right."""
    longest = max(map(len, sources)) + 1
    rows = [[*ids, EOS, *[PAD] * (longest - len(ids) - 1)] for ids in sources]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def search(
    model: SearchModel[State],
    sources: Sequence[Ids],
    how: DecodeConfig,
    device: torch.device,
    n_best: int = 1,
    prefixes: Sequence[Ids] | None = None,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    observe: Callable[[BeamStep], None] | None = None,
    shortlist: Shortlist | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each source (ids without EOS), in the order given. `done` hears which are found.

    `observe` hears of every step of a beam search. With a `shortlist`, the words of a translation are those that the
    sources of its batch may need: so what is found may depend on what else is translated.
    """
    rows = how.beam if how.method == "beam" else n_best  # per sentence; what they take must not grow with them
    budget = max(1, how.batch_tokens * 4 // max(rows, 4))
    sizes = [len(ids) + 1 for ids in sources]

    def find(batch: list[int]) -> list[list[Hypothesis]]:
        chosen = [sources[i] for i in batch]
        src_BM = pad_sources(chosen, device)
        forced = None if prefixes is None else [prefixes[i] for i in batch]
        searched = model if shortlist is None else restrict(model, shortlist.allowed(chosen, forced or ()))
        lengths = limit_lengths(src_BM, how.max_length_ratio, how.max_length_extra)
        if forced is not None:  # what is forced comes on top of the room for a translation
            lengths = [length + len(prefix) for length, prefix in zip(lengths, forced, strict=True)]
        if model.longest_target is not None:
            lengths = [min(length, model.longest_target) for length in lengths]
        return search_batch(searched, src_BM, how, lengths, n_best, forced, batch, observe)

    found: dict[int, list[Hypothesis]] = {}
    workers = torch.get_num_threads() if isinstance(model, Engine) and observe is None else 1
    if workers > 1:  # an engine's search holds one thread
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


def search_batch(
    model: SearchModel[State],
    src_BM: Tensor,
    how: DecodeConfig,
    lengths: list[int],
    n_best: int,
    prefixes: Sequence[Ids] | None,
    indices: Sequence[int],
    observe: Callable[[BeamStep], None] | None = None,
) -> list[list[Hypothesis]]:
    match how.method:
        case "beam":
            return beam_search(
                model,
                src_BM,
                beam=how.beam,
                length_penalty=how.length_penalty,
                rule=how.beam_rule,
                max_lengths=lengths,
                n_best=n_best,
                no_repeat_ngram=how.no_repeat_ngram,
                prefixes=prefixes,
                observe=observe,
            )
        case "sample":
            return sample_search(
                model,
                src_BM,
                temperature=how.temperature,
                top_k=how.top_k,
                top_p=how.top_p,
                seeds=spread_seed(how.seed, indices),
                max_lengths=lengths,
                n_samples=n_best,
                length_penalty=how.length_penalty,
                rule=how.beam_rule,
                no_repeat_ngram=how.no_repeat_ngram,
                prefixes=prefixes,
            )
        case _:
            assert_never(how.method)
