"""The searches of the engine, in float32 and int8, beside the same searches in Python with the model in PyTorch.

    python bench/searches.py                # size small, 32 sentences in batches of 16
    python bench/searches.py --toy --repeats 1

Beam search, with a forced prefix, with n-gram blocking, sampling with top-k and top-p, scores of given translations.
Weights are random and never generate EOS, so that both sides generate the same number of tokens: 20 per sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from interleaved import rates_in_turn
from report import Comparison, Report, options
from workloads import config_of

from regard.decode.beam import beam_search
from regard.decode.engine import NumberFormat
from regard.decode.model_engine import build_engine
from regard.decode.sampling import sample_search
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import EOS

CPU = torch.device("cpu")
SENTENCES, BATCH, LENGTH = 32, 16, 20
FORMS: tuple[NumberFormat, ...] = ("float32", "int8")
Ids = list[int]
Search = Callable[[list[Ids]], Any]


def random_model(size: str) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(config_of(size)).eval().requires_grad_(False)
    model.output.weight.data[EOS] = 0.0  # its logit is 0, and some of the others are always higher
    return model


def searches(prefixes: list[Ids]) -> dict[str, dict[str, Any]]:
    lengths: dict[str, Any] = {"max_lengths": [LENGTH] * BATCH}
    beam = {"beam": 4, "length_penalty": 0.6, **lengths}
    return {
        "beam 4": beam,
        "beam 4, prefix": {**beam, "prefixes": prefixes},
        "beam 4, no n-gram twice": {**beam, "no_repeat_ngram": 3},
        "sampling": {"temperature": 0.9, "top_k": 50, "top_p": 0.95, "seeds": list(range(BATCH)), **lengths},
    }


def ended(batch: list[Ids]) -> list[Ids]:
    return [[*ids, EOS] for ids in batch]


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--size", choices=["small", "base"], default="small")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # the engine searches a batch on one thread
    report, model = Report(), random_model("toy" if args.toy else args.size)
    built = {f"regard {form}": build_engine(model, form) for form in FORMS}
    engines = {name: engine for name, engine in built.items() if engine is not None}
    if not engines:
        raise SystemExit("there is no engine on this machine (`regard doctor` says why)")
    size = model.config.tgt_vocab_size
    rng = np.random.default_rng(1)
    sources: list[Ids] = rng.integers(4, size, size=(SENTENCES, LENGTH)).tolist()
    targets: list[Ids] = rng.integers(4, size, size=(SENTENCES, LENGTH - 1)).tolist()
    starts = range(0, SENTENCES, BATCH)
    tokens = float(SENTENCES * LENGTH)

    def work(search: Search) -> Callable[[], float]:
        def run() -> float:
            for start in starts:
                search(sources[start : start + BATCH])
            return tokens

        return run

    for name, how in searches([ids[:3] for ids in targets[:BATCH]]).items():
        plain = sample_search if name == "sampling" else beam_search
        works = {"Python": work(lambda batch, plain=plain, how=how: plain(model, pad_sources(batch, CPU), **how))}  # type: ignore[misc]
        for engine_name, engine in engines.items():
            fast = engine.sample if name == "sampling" else engine.beam_search
            works[engine_name] = work(lambda batch, fast=fast, how=how: fast(ended(batch), **how))  # type: ignore[misc]
        report.add(Comparison(f"search, {name}", "tokens/s", rates_in_turn(works, args.repeats), base="Python"))
    works = {"Python": work(lambda batch: score_translations(model, pad_sources(batch, CPU), targets[:BATCH]))}
    for engine_name, engine in engines.items():
        works[engine_name] = work(lambda batch, engine=engine: engine.score(ended(batch), targets[:BATCH]))  # type: ignore[misc]
    report.add(Comparison("search, scoring", "tokens/s", rates_in_turn(works, args.repeats), base="Python"))
    report.write(args.json)


if __name__ == "__main__":
    main()
