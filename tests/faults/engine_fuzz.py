"""The engine against the model: random small models and random inputs.

    python tests/faults/engine_fuzz.py --cases 10000 --seed 1

Every case draws sizes, positions, norms, feed-forwards, experts, sharings, the number of layers and weights, and
compares one thing in float32: log-probabilities after steps with random tokens and reorderings, within 1e-4; scores of
given translations; greedy search, beam search by both rules, or sampling, with random constraints, equal but for ties.
Prints its counts as JSON. Ends with 1 at the first difference, and prints the case.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard.config import MixtureConfig, TransformerConfig
from regard.decode.beam import beam_search
from regard.decode.engine import Engine
from regard.decode.hypotheses import Hypothesis
from regard.decode.model_engine import build_engine
from regard.decode.restricted import Restricted
from regard.decode.sampling import sample_search
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS

CPU = torch.device("cpu")
CLOSE = 1e-4  # of a log-probability; times the number of tokens of a total
NEAR = 1e-3  # scores that differ by less may change places
Ids = list[int]


class Difference(Exception):  # noqa: N818
    """The engine and the model do not agree."""


def draw_config(r: random.Random) -> TransformerConfig:
    heads = r.choice([1, 1, 2, 3, 4])
    per_head = r.choice([4, 8, 12, 16, 20, 36])
    vocabulary = r.randint(8, 90)
    tied = r.choice(["all", "output", "none"])
    return TransformerConfig(
        d_model=heads * per_head,
        n_heads=heads,
        d_ff=4 * r.randint(1, 20),
        n_encoder_layers=r.randint(1, 3),
        n_decoder_layers=r.randint(1, 3),
        position=r.choice(["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]),
        max_positions=r.randint(24, 40),
        norm_order=r.choice(["post", "pre"]),
        norm=r.choice(["layernorm", "rmsnorm"]),
        ffn=r.choice(["relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu", "moe"]),
        tie_embeddings=tied,
        src_vocab_size=vocabulary if tied == "all" else r.randint(8, 90),
        tgt_vocab_size=vocabulary,
        output_bias=r.random() < 0.4,
        moe=draw_mixture(r),
    )


def draw_mixture(r: random.Random) -> MixtureConfig:
    groups, per_group = r.randint(1, 3), r.randint(1, 3)
    used = r.randint(1, groups)
    per_token = r.randint(1, per_group * used)
    return MixtureConfig(
        n_experts=groups * per_group,
        experts_per_token=per_token,
        n_shared_experts=r.randint(0, 2),
        d_ff=4 * r.randint(0, 8),
        kind=r.choice(["relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu"]),
        n_groups=groups,
        groups_per_token=used,
        gate=r.choice(["sigmoid", "softmax"]),
        normalise_gates=per_token > 1 and r.random() < 0.5,
        routed_scaling_factor=r.choice([1.0, 2.5]),
        load_balancing=r.choice(["bias", "none"]),
    )


def draw_model(r: random.Random) -> Transformer:
    config = draw_config(r)
    torch.manual_seed(r.getrandbits(32))
    model = Transformer(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases that are not zero, gains that are not one
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


class Case:
    """One model with its engine, sources and targets."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.model = draw_model(r)
        engine = build_engine(self.model, "float32")
        assert engine is not None, "this needs the engine"
        self.engine: Engine = engine
        c = self.model.config
        count = r.randint(1, 4)
        self.sources = [self.ids(c.src_vocab_size, r.randint(0, 12)) for _ in range(count)]
        self.targets = [self.ids(c.tgt_vocab_size, r.randint(0, 12)) for _ in range(count)]
        self.src_BM = pad_sources(self.sources, CPU)
        self.ended = [[*ids, EOS] for ids in self.sources]

    def ids(self, vocabulary: int, length: int) -> Ids:
        return [self.random.randint(EOS + 1, vocabulary - 1) for _ in range(length)]

    def run(self) -> str:
        """The name of what was compared."""
        check = self.random.choice([self.steps, self.scores, self.greedy, self.beam, self.sampling])
        check()
        return check.__name__

    def steps(self) -> None:
        """Steps with a reordering."""
        length = max(map(len, self.targets)) + 1
        given = np.array([[BOS, *ids, *[EOS] * (length - 1 - len(ids))] for ids in self.targets])
        state, plain = self.engine.begin(self.ended, length), self.model.begin(self.src_BM, length)
        for time_step in range(length):
            tokens_R = given[:, time_step].copy()
            expected = torch.log_softmax(self.model.step(torch.from_numpy(tokens_R), plain), dim=1)
            found = torch.log_softmax(torch.from_numpy(self.engine.step(tokens_R, state)), dim=1)
            close(found.numpy(), expected.numpy(), "log-probabilities of a step")
            if self.random.random() < 0.3:
                rows = np.array([self.random.randrange(len(given)) for _ in given])
                state.reorder(rows)
                plain.reorder(torch.from_numpy(rows))
                given = given[rows]

    def scores(self) -> None:
        expected = score_translations(self.model, self.src_BM, self.targets)
        for a, b in zip(expected, self.engine.score(self.ended, self.targets), strict=True):
            close(np.array(b.hypothesis.token_log_probs), np.array(a.token_log_probs), "scores")

    def options(self) -> dict[str, Any]:
        r, size = self.random, self.model.config.tgt_vocab_size
        limits = [r.randint(4, 14) for _ in self.sources]
        prefixes = [self.ids(size, r.randint(0, 3)) for _ in self.sources] if r.random() < 0.3 else None
        return {
            **{"max_lengths": limits, "prefixes": prefixes, "length_penalty": r.choice([0.0, 0.6, 1.0])},
            **{"no_repeat_ngram": r.choice([0, 0, 1, 2, 3]), "rule": r.choice(["paper", "huggingface"])},
            "forbidden": self.ids(size, r.choice([0, 0, 2])),
        }

    def searched(self) -> tuple[Any, Engine]:
        """The model and the engine, of all tokens or of some."""
        size = self.model.config.tgt_vocab_size
        if self.random.random() < 0.7:
            return self.model, self.engine
        allowed = np.array(sorted({*range(4), *self.ids(size, 12)}), np.int64)
        return Restricted(self.model, allowed), self.engine.restricted(allowed)

    def greedy(self) -> None:
        self.compare_beams(1)

    def beam(self) -> None:
        self.compare_beams(self.random.randint(2, 5))

    def compare_beams(self, beam: int) -> None:
        (model, engine), how = self.searched(), self.options()
        how |= {"beam": beam, "n_best": self.random.randint(1, beam)}
        expected, found = beam_search(model, self.src_BM, **how), engine.beam_search(self.ended, **how)
        for sentence, other in zip(expected, found, strict=True):
            compare_hypotheses(sentence, other)

    def sampling(self) -> None:
        """Where a random number is near the border between two tokens, samples may differ: they are compared alone."""
        (model, engine), how, r = self.searched(), self.options(), self.random
        how |= {
            "temperature": r.uniform(0.3, 2.0),
            "top_k": r.choice([0, 1, 3, 200]),
            "top_p": r.choice([0.3, 0.9, 1.0]),
        }
        how |= {"n_samples": r.randint(1, 3), "seeds": [r.getrandbits(56) for _ in self.sources]}
        expected, found = sample_search(model, self.src_BM, **how), engine.sample(self.ended, **how)
        pairs = [(a, b) for one, other in zip(expected, found, strict=True) for a, b in zip(one, other, strict=True)]
        for a, b in pairs:
            if a.ids == b.ids:
                close(np.array(b.token_log_probs), np.array(a.token_log_probs), "probabilities of a sample")
        if sum(a.ids != b.ids for a, b in pairs) > 1 + len(pairs) // 4:
            raise Difference(f"samples: {[a.ids for a, _ in pairs]} and {[b.ids for _, b in pairs]}")


def compare_hypotheses(expected: Sequence[Hypothesis], found: Sequence[Hypothesis]) -> None:
    """Equal, unless two decisions of the search were nearly equal: then the scores may differ from there on."""
    for a, b in zip(expected, found, strict=False):
        if a.ids == b.ids and a.finished == b.finished:
            close(np.array(b.token_log_probs), np.array(a.token_log_probs), "probabilities of a hypothesis")
    wanted, other = (np.array([one.score for one in side]) for side in (expected, found))
    same = len(wanted) == len(other) and bool((np.abs(wanted - other) < NEAR).all())
    if not same:
        raise Difference(f"hypotheses: {[(a.ids, a.score) for a in expected]} and {[(b.ids, b.score) for b in found]}")


def close(found: Any, expected: Any, what: str) -> None:
    finite = np.isfinite(expected)
    if found.shape != expected.shape or (np.isfinite(found) != finite).any():
        raise Difference(f"{what}: of different kinds")
    gap = float(np.abs(found[finite] - expected[finite]).max(initial=0.0))
    if not gap <= CLOSE * max(1.0, float(np.abs(expected[finite]).max(initial=0.0)) / 10):
        raise Difference(f"{what} differ by {gap:g}")


@torch.inference_mode()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    told = time.monotonic()
    for number in range(args.cases):
        seed = args.seed * 1_000_003 + number
        try:
            case = Case(seed)
            counts[case.run()] += 1
        except Difference as error:
            print(f"case {seed}: {error}\n{case.model.config}", file=sys.stderr)
            return 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{number + 1:,} of {args.cases:,}", file=sys.stderr)
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
