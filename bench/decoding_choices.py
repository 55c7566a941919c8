"""The effect of single design choices of the decoding engine, each compared with the alternative, on Multi30k.

    python bench/decoding_choices.py

The sentences are random if REGARD_DATA has no Multi30k. The weights are random, and every translation has the mean
length of the references.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from decode import COUNTS, TOY_COUNTS, Searched, Subject, ours, random_subjects
from interleaved import Work, milliseconds_in_turn, rates_in_turn
from report import Comparison, Report, options

from regard.config import TransformerConfig
from regard.decode.batching import plan_batches
from regard.decode.model_engine import build_engine

BEAM = 4
NAMES = ("one thread", "two threads")


def with_threads(threads: int, work: Work) -> Work:
    """An engine gives each thread a batch; a model has all of them in each of its products."""

    def done() -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return work()
        finally:
            torch.set_num_threads(before)

    return done


def compare_threads(subject: Subject, batch: int, count: int, repeats: int) -> Iterable[Comparison]:
    """What a second thread gives where the two share each step, and where each has a batch of its own."""
    searched: dict[str, Searched] = {"that share a step": subject.model}
    engine = build_engine(subject.model, "float32")
    if engine is not None:
        searched["with a batch each"] = engine
    for (how, model), beam in itertools.product(searched.items(), (1, BEAM)):
        task = subject.task(batch, count, beam)
        works = {name: with_threads(threads, ours(model, task)) for threads, name in enumerate(NAMES, start=1)}
        what = f"threads {how}: {subject.name}, float32, {count} sentences, beam {beam}"
        yield Comparison(what, "tokens/s", rates_in_turn(works, repeats), NAMES[0])


def compare_reordering(config: TransformerConfig, batch: int, length: int, repeats: int) -> Comparison:
    """Hypotheses change places after each token: their keys and values move, or only what says where those are."""
    rows = batch * BEAM
    order = torch.arange(rows).view(batch, BEAM).flip(1).flatten()
    past = [torch.randn(rows, length, config.d_model) for _ in range(2 * config.n_decoder_layers)]
    table = torch.arange(rows, dtype=torch.int32)[:, None].repeat(1, length)
    works: dict[str, Callable[[], object]] = {
        "keys and values move": lambda: [one.index_select(0, order) for one in past],
        "a table of places moves": lambda: table.index_select(0, order),
    }
    what = f"{rows} hypotheses of {length} tokens change places"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), next(iter(works)), less_is_better=True)


def compare_sharing(config: TransformerConfig, batch: int, length: int, repeats: int) -> Comparison:
    """The source's keys and values of every decoder layer: for each hypothesis, or once for a sentence."""
    width = config.d_model
    memory = torch.randn(batch * length, width)
    weights = [torch.randn(2 * width, width) for _ in range(config.n_decoder_layers)]
    copies = memory.repeat(BEAM, 1)
    works: dict[str, Callable[[], object]] = {
        "for each hypothesis": lambda: [F.linear(copies, weight) for weight in weights],
        "once for a sentence": lambda: [F.linear(memory, weight) for weight in weights],
    }
    what = f"keys and values of {batch} sources of {length} tokens, beam {BEAM}, float32"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), next(iter(works)), less_is_better=True)


def compare_padding(sources: Sequence[Sequence[int]], batch: int) -> Comparison:
    """How much of what an encoder works on are tokens."""
    sizes = [len(ids) + 1 for ids in sources]
    budget = round(batch * sum(sizes) / len(sizes))
    as_they_come = [sizes[start : start + batch] for start in range(0, len(sizes), batch)]
    sorted_first = [[sizes[index] for index in chosen] for chosen in plan_batches(sizes, budget)]
    shares = {
        "padded, in input order": share_of_tokens(as_they_come),
        "padded, sorted by length": share_of_tokens(sorted_first),
        "without padding": 100.0,
    }
    what = f"positions of {len(sources):,} sources, {batch} a batch, that are tokens"
    return Comparison(what, "%", {name: [share] for name, share in shares.items()}, next(iter(shares)))


def share_of_tokens(batches: Sequence[Sequence[int]]) -> float:
    return 100 * sum(map(sum, batches)) / sum(len(sizes) * max(sizes) for sizes in batches)


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    report = Report()
    counts = TOY_COUNTS if args.toy else COUNTS
    batch = max(counts)
    sizes = ("toy",) if args.toy else ("small", "base")
    with tempfile.TemporaryDirectory() as temporary:
        for subject in random_subjects(sizes, Path(temporary), not args.toy, report):
            for comparison in compare_threads(subject, batch, counts[batch], args.repeats):
                report.add(comparison)
            assert subject.length is not None
            for compare in (compare_reordering, compare_sharing):
                report.add(compare(subject.model.config, batch, subject.length, args.repeats))
    report.add(compare_padding(subject.sources, batch))
    report.write(args.json)


if __name__ == "__main__":
    main()
