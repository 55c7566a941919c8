"""The time that the guards take: text to text with the bundled models, with guards and without, on the same sentences.

    REGARD_DATA=data python bench/guard_speed.py                1,000 sentences each repeat, int8, beam 4, one thread
    python bench/guard_speed.py --repeats 9 --threads 2 --clock wall

Each repeat takes other sentences of Tatoeba (first the validation set, then blocks of the training set), because the
guards cache what they know of recent texts. The two take turns in going first. The ratio is the median of the ratios of
the repeats. The clock is the CPU time of the process; with several threads, or on a quiet machine, use --clock wall.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from regard import Translator

WARM_UP = 64  # sentences
CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}


def blocks(folder: Path, language: str, size: int, count: int) -> list[list[str]]:
    """`count` blocks of sentences and a small one to warm up; none of them overlap."""
    sentences: list[str] = []
    for split in ("valid", "train"):
        with gzip.open(folder / f"{split}.{language}.gz", "rt", encoding="utf-8") as file:
            sentences += [line.rstrip("\n") for line in file]
    starts = range(0, size * count + 1, size)
    return [sentences[start : start + size] for start in starts[:-1]] + [sentences[starts[-1] :][:WARM_UP]]


def measure(args: argparse.Namespace, source: str, to: str) -> list[tuple[float, float]]:
    """The seconds without and with guards, of each repeat."""
    clock = CLOCKS[args.clock]
    translators = [Translator(precision=args.precision, source=source, to=to, guards=on) for on in (False, True)]
    *repeats, warm_up = blocks(args.folder, source, args.sentences, args.repeats)
    for translator in translators:
        translator.translate(warm_up, beam=args.beam)
    found = []
    for repeat, texts in enumerate(repeats):
        taken = [0.0, 0.0]
        for which in (0, 1) if repeat % 2 == 0 else (1, 0):
            time.sleep(0.05)  # threads of the other one may still be waiting actively
            started = clock()
            for at in range(0, len(texts), args.at_once):
                translators[which].translate(texts[at : at + args.at_once], beam=args.beam)
            taken[which] = clock() - started
        found.append((taken[0], taken[1]))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    tatoeba = Path(os.environ.get("REGARD_DATA", "data")) / "tatoeba-zh-en"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=tatoeba, help="folder with valid and train, .zh.gz and .en.gz")
    parser.add_argument("--sentences", type=int, default=1000, help="per repeat [1000]")
    parser.add_argument("--at-once", type=int, default=1000, help="sentences per call [1000]")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="cpu")
    args = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # which the engine reads at every search
    for source, to in (("zh", "en"), ("en", "zh")):
        found = measure(args, source, to)
        alone, guarded = (statistics.median(side) for side in zip(*found, strict=True))
        ratios = sorted(with_guards / without for without, with_guards in found)
        print(
            f"{source} → {to}: {alone:.3f} s without guards, {guarded:.3f} s with guards ({args.clock}); "
            f"ratio {statistics.median(ratios):.3f} (from {ratios[0]:.3f} to {ratios[-1]:.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
