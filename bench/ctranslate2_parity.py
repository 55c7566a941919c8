"""Agreement with CTranslate2 on the same weights: translations by both, compared token for token.

python bench/ctranslate2_parity.py --model runs/multi30k-en-de/model --recipe recipes/multi30k-en-de.toml --split test
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from regard.config.recipe import load_recipe
from regard.data.corpus import read_pairs
from regard.interop.ctranslate2 import SEARCH_RULES, export_ctranslate2
from regard.pipelines.model_translator import ModelTranslator

LONGEST = 100
# Both divide a hypothesis's log-probability by its length to the power of the penalty. With a penalty, CTranslate2
# stops as soon as beam · patience hypotheses have ended, we when no other can win: its patience of 1 misses some.
SEARCHES = (
    ("greedy", 1, 0.0, 1.0),
    ("beam 4, no length penalty", 4, 0.0, 1.0),
    ("beam 4, length penalty 1, patience 2", 4, 1.0, 2.0),
    ("beam 4, length penalty 1, patience 1", 4, 1.0, 1.0),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--sentences", type=int, default=500)
    args = parser.parse_args(argv)
    corpora = getattr(load_recipe(args.recipe).data, args.split)
    texts = [pair.src for corpus in corpora for pair in read_pairs(corpus)][: args.sentences]
    ours = ModelTranslator(args.model, "float32")
    sources = [ours.tokenizer.src.pieces(ids) for ids in ours.encode_src(texts)]
    with tempfile.TemporaryDirectory() as folder:
        export_ctranslate2(args.model, Path(folder, "ct2"))
        theirs = ctranslate2.Translator(str(Path(folder, "ct2")), compute_type="float32")
        for name, beam, penalty, patience in SEARCHES:
            how = {"beam": beam, "length_penalty": penalty, "max_length_ratio": 0.0, "max_length_extra": LONGEST}
            found = ours.translate(texts, beam_rule="huggingface", **how)
            results = theirs.translate_batch(
                sources,
                beam_size=beam,
                length_penalty=penalty,
                patience=patience,
                max_decoding_length=LONGEST,
                **SEARCH_RULES,
            )
            pairs = zip(found, results, strict=True)
            same = sum(list(one.alternatives[0].tokens) == result.hypotheses[0] for one, result in pairs)
            print(f"{name}: {same} of {len(texts)} equal, {same / len(texts):.1%}")


if __name__ == "__main__":
    main()
