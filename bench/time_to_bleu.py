"""Training time to a BLEU score, compared with nn.Transformer in float32.

    REGARD_DATA=… python bench/time_to_bleu.py                 # to 38 on Multi30k's valid: hours
    REGARD_DATA=… python bench/time_to_bleu.py --target 30

All get the recipe's batches, sizes, dropout, label smoothing, schedule and Adam. One of ours is the peer's model (fixed
positions added to the embeddings, the weights of the last step); the other has the recipe's positions and its moving
average of the weights. They train in turns of some steps, so that noise affects all; after each turn the
whole of valid is translated greedily and scored lower-cased, which is not counted. R-Drop is left out: the peer has
none.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import torch
from peers import TorchTransformer
from report import Comparison, Report, options
from training_steps import Step, chosen, peer_step, regard_step

from regard.config import CorpusConfig, DecodeConfig, RunConfig, TransformerConfig
from regard.config.recipe import load_recipe
from regard.data.batches import Batch, Batches, DataPosition
from regard.data.prepare import Prepared
from regard.decode.batching import plan_batches
from regard.decode.search import pad_sources, search
from regard.evaluation.scores import measure
from regard.kernels.memory import keep_freed_memory
from regard.model_folder.atomic import default_cache
from regard.models.transformer import Transformer
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import BOS, EOS
from regard.train.ema import MovingAverage
from regard.train.optimizer import learning_rate, paper_learning_rate
from regard.train.tasks import prepare_run
from regard.train.validation import evaluation_mode

RECIPES = Path(__file__).parents[1] / "recipes"
CPU = torch.device("cpu")
Translate = Callable[[Sequence[str]], list[str]]


@dataclass
class System:
    """A model in training."""

    step: Step
    translate: Translate
    stream: Batches
    place: DataPosition = field(default_factory=DataPosition)
    steps: int = 0
    seconds: float = 0.0
    bleu: list[float] = field(default_factory=list)

    def train(self, steps: int) -> None:
        started = time.perf_counter()
        for batch, place in islice(self.stream.iterate(self.place), steps):
            self.step(batch)
            self.place = place
        self.seconds += time.perf_counter() - started
        self.steps += steps

    def measure(self, pairs: Sequence[tuple[str, str]], language: str) -> None:
        outputs = self.translate([source for source, _ in pairs])
        self.bleu.append(measure(outputs, [target for _, target in pairs], language, lowercase=True)[0].score)


@torch.inference_mode()
def translate_plainly(model: TorchTransformer, tokenizer: TokenizerPair, sources: Sequence[str]) -> list[str]:
    """Greedily, the whole target again for each token: what a user of nn.Transformer writes."""
    model.eval()
    encoded = tokenizer.encode_src(sources)
    found: dict[int, str] = {}
    for batch in plan_batches([len(ids) + 1 for ids in encoded], DecodeConfig().batch_tokens):
        src = pad_sources([encoded[i] for i in batch], CPU)
        memory, tgt = model.encode(src), torch.full((len(src), 1), BOS)
        done = torch.zeros(len(src), dtype=torch.bool)
        for _ in range(2 * src.shape[1] + 10):
            chosen = model.project(model.decode(memory, src, tgt)[:, -1]).argmax(dim=-1)
            tgt = torch.cat([tgt, torch.where(done, EOS, chosen)[:, None]], dim=1)
            done |= chosen == EOS
            if bool(done.all()):
                break
        texts = [tokenizer.decode_tgt(before_end(row)) for row in tgt[:, 1:].tolist()]
        found.update(zip(batch, texts, strict=True))
    model.train()
    return [found[i] for i in range(len(sources))]


def before_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


def translate_ours(model: Transformer, tokenizer: TokenizerPair, sources: Sequence[str]) -> list[str]:
    with evaluation_mode(model):
        found = search(model, tokenizer.encode_src(sources), DecodeConfig(beam=1), CPU)
    return [tokenizer.decode_tgt(hypotheses[0].ids) for hypotheses in found]


def make_systems(run: RunConfig, prepared: Prepared) -> dict[str, System]:
    train, tokenizer, config = run.train, prepared.tokenizer, run.model
    assert isinstance(config, TransformerConfig)
    alike = dataclasses.replace(config, position="sinusoidal")
    peak = train.lr or paper_learning_rate(config.d_model, train.warmup_steps)
    best = chosen()

    def rate(step: int) -> float:
        return learning_rate(step, train.schedule, peak, train.warmup_steps, train.max_steps)

    def stream() -> Batches:
        return Batches(prepared.train, prepared.weights, train.batch_tokens, train.seed)

    def ours(model: Transformer) -> System:
        return System(regard_step(model, best, rate), lambda texts: translate_ours(model, tokenizer, texts), stream())

    def averaged(model: Transformer, decay: float) -> System:
        step, average, steps = regard_step(model, best, rate), MovingAverage(model, decay), count(1)

        def step_and_average(batch: Batch) -> float:
            loss = step(batch)
            average.update(model, next(steps))
            return loss

        def translate(texts: Sequence[str]) -> list[str]:
            with average.applied(model):
                return translate_ours(model, tokenizer, texts)

        return System(step_and_average, translate, stream())

    torch.manual_seed(train.seed)
    peer = TorchTransformer(alike)
    return {
        "nn.Transformer float32": System(
            peer_step(peer, torch.float32, rate), lambda texts: translate_plainly(peer, tokenizer, texts), stream()
        ),
        f"regard {best}": ours(Transformer(alike)),
        f"regard {best}, as in the recipe": averaged(Transformer(config), train.ema),
    }


def toy_run() -> RunConfig:
    run = load_recipe(RECIPES / "reverse.toml")
    data = dataclasses.replace(run.data, train=(CorpusConfig(toy="reverse", size=200),))
    return dataclasses.replace(run, data=data)


def race(
    systems: dict[str, System], pairs: Sequence[tuple[str, str]], language: str, target: float, turn: int, most: int
) -> None:
    """Train each in turn until it has reached the target; within so many steps it must."""
    while running := {name: one for name, one in systems.items() if not one.bleu or one.bleu[-1] < target}:
        if all(system.steps >= most for system in running.values()):
            sys.exit(f"not at {target:g} BLEU within {most:,} steps: {', '.join(running)}")
        for name, system in running.items():
            system.train(turn)
            system.measure(pairs, language)
            said = f"step {system.steps:>6,}  {system.seconds / 60:6.1f} minutes  BLEU {system.bleu[-1]:5.2f}"
            print(f"  {name:<32}{said}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--recipe", type=Path, default=RECIPES / "multi30k-en-de.toml")
    parser.add_argument("--target", type=float, default=38.0, help="BLEU, lower-cased, on the recipe's valid")
    parser.add_argument("--turn", type=int, default=250, help="steps between two looks (default: 250)")
    parser.add_argument("--most", type=int, default=20_000, help="steps after which it is given up (default: 20,000)")
    args = parser.parse_args(argv)
    keep_freed_memory()  # for both
    report = Report()
    run, prepared = prepare_run(toy_run() if args.toy else load_recipe(args.recipe), default_cache(), print)
    assert isinstance(prepared, Prepared)
    target, turn = (0.0, 2) if args.toy else (args.target, args.turn)
    systems = make_systems(run, prepared)
    race(systems, prepared.valid, run.data.tgt_lang, target, turn, args.most)
    minutes = {name: [system.seconds / 60] for name, system in systems.items()}
    what = f"time to {target:g} BLEU"
    report.add(Comparison(what, "minutes", minutes, next(iter(systems)), less_is_better=True))
    report.note(", ".join(f"{name}: {one.steps:,} steps to {one.bleu[-1]:.2f}" for name, one in systems.items()))
    report.write(args.json)


if __name__ == "__main__":
    main()
