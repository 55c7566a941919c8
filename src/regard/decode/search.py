"""Search for the translations of many sentences: batches of similar length, results in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor

from regard.config import DecodeConfig
from regard.decode.batching import plan_batches, token_budget
from regard.decode.beam import BeamStep, beam_search
from regard.decode.cancellable import Cancellable
from regard.decode.engine import Engine
from regard.decode.engine_control import SearchControl
from regard.decode.engine_search import engine_search
from regard.decode.hypotheses import Hypothesis
from regard.decode.model_engine import SteppedEngine
from regard.decode.protocols import SearchModel, State, limit_lengths
from regard.decode.random_numbers import spread_seed
from regard.decode.restricted import restrict
from regard.decode.sampling import sample_search
from regard.decode.shortlist import Shortlist
from regard.tokenizers.special_ids import EOS, PAD

Ids = Sequence[int]


def pad_sources(sources: Sequence[Ids], device: torch.device) -> Tensor:
    """src_BM: each source with its EOS, padded on the right."""
    longest = max(map(len, sources)) + 1
    rows = [[*ids, EOS, *[PAD] * (longest - len(ids) - 1)] for ids in sources]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def search(
    model: Engine | SearchModel[Any],
    sources: Sequence[Ids],
    config: DecodeConfig,
    device: torch.device,
    n_best: int = 1,
    prefixes: Sequence[Ids] | None = None,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    observe: Callable[[BeamStep], None] | None = None,
    shortlist: Shortlist | None = None,
    control: SearchControl | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each source (ids without EOS), in the order given. `done` is called with the
    indices of each batch when it is finished, `observe` at every step of a beam search. `control` can cancel it.

    With a `shortlist`, translations consist of the tokens that the sources of the batch may need, so that a result may
    depend on the other sentences of the batch.
    """
    if isinstance(model, Engine):
        if observe is None:
            workers = torch.get_num_threads()
            return engine_search(model, sources, config, n_best, done, shortlist, workers, prefixes, control)
        model = SteppedEngine(model)
    stepped = model

    def find(batch: list[int]) -> list[list[Hypothesis]]:
        chosen = [sources[i] for i in batch]
        src_BM = pad_sources(chosen, device)
        forced = None if prefixes is None else [prefixes[i] for i in batch]
        searched = stepped if shortlist is None else restrict(stepped, shortlist.allowed(chosen, forced or ()))
        if control is not None:
            searched = Cancellable(searched, control)
        lengths = limit_lengths(src_BM, config.max_length_ratio, config.max_length_extra)
        if forced is not None:  # the prefix does not count towards the maximum length
            lengths = [length + len(prefix) for length, prefix in zip(lengths, forced, strict=True)]
        if stepped.longest_target is not None:
            lengths = [min(length, stepped.longest_target) for length in lengths]
        return search_batch(searched, src_BM, config, lengths, n_best, forced, batch, observe)

    found: dict[int, list[Hypothesis]] = {}
    for batch in plan_batches([len(ids) + 1 for ids in sources], token_budget(config, n_best)):
        found.update(zip(batch, find(batch), strict=True))
        done(batch)
    return [found[i] for i in range(len(sources))]


def search_batch(
    model: SearchModel[State],
    src_BM: Tensor,
    config: DecodeConfig,
    lengths: list[int],
    n_best: int,
    prefixes: Sequence[Ids] | None,
    indices: Sequence[int],
    observe: Callable[[BeamStep], None] | None = None,
) -> list[list[Hypothesis]]:
    match config.method:
        case "beam":
            return beam_search(
                model,
                src_BM,
                beam=config.beam,
                length_penalty=config.length_penalty,
                rule=config.beam_rule,
                max_lengths=lengths,
                n_best=n_best,
                no_repeat_ngram=config.no_repeat_ngram,
                prefixes=prefixes,
                observe=observe,
            )
        case "sample":
            return sample_search(
                model,
                src_BM,
                temperature=config.temperature,
                top_k=config.top_k,
                top_p=config.top_p,
                seeds=spread_seed(config.seed, indices),
                max_lengths=lengths,
                n_samples=n_best,
                length_penalty=config.length_penalty,
                rule=config.beam_rule,
                no_repeat_ngram=config.no_repeat_ngram,
                prefixes=prefixes,
            )
        case _:
            assert_never(config.method)
