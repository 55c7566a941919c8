"""Short sentences, text to text with a bundled model, beside CTranslate2 with its tokenizer: same weights, int8.

    REGARD_DATA=data python bench/short_sentences.py           1,000 sentences of Tatoeba in one call, one thread
    python bench/short_sentences.py --one-by-one               one sentence per call
    python bench/short_sentences.py --threads 2 --clock wall   on a quiet machine

Both read text and give text: tokenizing, search, joining. Guards are off. The two take turns; the ratio is the median
of the ratios of the turns. The clock is the CPU time of the process; on a quiet machine, with several threads, use
wall.
CTranslate2 runs with its batches and with the best of its arrangements of threads.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import regard
from regard.interop.ctranslate2 import export_ctranslate2
from regard.pipelines.model_translator import ModelTranslator

CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}
Translate = Callable[[list[str]], list[str]]


def sentences(folder: Path, language: str, count: int) -> list[str]:
    with gzip.open(folder / f"test.{language}.gz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file][:count]


def theirs(model: Any, ours: ModelTranslator, beam: int) -> Translate:
    """SentencePiece in front of CTranslate2 and behind it."""
    source, target = ours.tokenizer.src, ours.tokenizer.tgt
    numbers = {piece: number for number, piece in enumerate(target.pieces(range(target.size)))}
    how = {"beam_size": beam, "max_batch_size": 2048, "batch_type": "tokens", "length_penalty": 1.0}

    def translate(texts: list[str]) -> list[str]:
        pieces = [source.pieces(ids) for ids in source.encode(texts)]
        found = model.translate_batch(pieces, **how)
        return [target.decode([numbers[piece] for piece in one.hypotheses[0]]) for one in found]

    return translate


def measure(systems: dict[str, Translate], texts: list[str], args: argparse.Namespace) -> dict[str, list[float]]:
    calls = [[text] for text in texts] if args.one_by_one else [texts]
    clock, taken = CLOCKS[args.clock], {name: [] for name in systems}
    for translate in systems.values():
        translate(texts[:50])
    for _ in range(args.repeats):
        for name, translate in systems.items():
            time.sleep(0.05)  # threads of the other one may still be waiting actively
            started = clock()
            for call in calls:
                translate(call)
            taken[name].append(clock() - started)
    return taken


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tatoeba = Path(os.environ.get("REGARD_DATA", "data")) / "tatoeba-zh-en"
    parser.add_argument("--folder", type=Path, default=tatoeba, help="of the corpus [$REGARD_DATA/tatoeba-zh-en]")
    parser.add_argument("--model", default="zh-en", help="a bundled model [zh-en]")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--one-by-one", action="store_true", help="one sentence per call")
    args = parser.parse_args(argv)
    import ctranslate2

    torch.set_num_threads(args.threads)
    model = Path(regard.__file__).parent / "bundled" / args.model
    ours = ModelTranslator(model, "int8")
    texts = sentences(args.folder, ours.src_lang, args.sentences)
    systems: dict[str, Translate] = {
        "regard": lambda texts: [one.text for one in ours.translate(texts, beam=args.beam)],
    }
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary) / "model"
        export_ctranslate2(model, exported, "int8")
        counts = sorted({(1, args.threads), (args.threads, 1)})
        for intra, inter in counts:
            translator = ctranslate2.Translator(
                str(exported), compute_type="int8", intra_threads=intra, inter_threads=inter
            )
            systems[f"CTranslate2, {intra} x {inter} threads"] = theirs(translator, ours, args.beam)
        taken = measure(systems, texts, args)
    for name, seconds in taken.items():
        print(f"{name:32} {statistics.median(seconds):7.3f} s ({args.clock})")
    best = min(itertools.islice(taken, 1, None), key=lambda name: statistics.median(taken[name]))
    ratios = [other / own for own, other in zip(taken["regard"], taken[best], strict=True)]
    print(f"{best} takes {statistics.median(ratios):.2f} times as long ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
