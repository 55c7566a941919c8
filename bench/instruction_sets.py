"""The same translations with every instruction set of this CPU: how many lines differ, and by how much their scores do.

    python bench/instruction_sets.py --sentences 500
    python bench/instruction_sets.py --precision int8

Each instruction set has a process of its own (REGARD_CPU), which compiles the engine if need be. Scores are sums of
log-probabilities; lines may differ where two translations have nearly the same score. The last line repeats the best
instruction set one sentence at a time: that must be equal bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.kernels.instruction_sets import supported

SENTENCES = Path(__file__).parent / "everyday.tsv"
PROGRAM = """
import json, sys
from regard import Translator
folder, precision, alone = sys.argv[1:]
texts = json.load(sys.stdin)
translator = Translator(folder, precision)
calls = [[text] for text in texts] if alone == "alone" else [texts]
found = [one.alternatives[0] for call in calls for one in translator.translate(call)]
json.dump([[one.text, one.log_prob] for one in found], sys.stdout)
"""


def translate(texts: list[str], args: argparse.Namespace, name: str, how: str) -> list[Any]:
    words = [sys.executable, "-c", PROGRAM, args.model, args.precision, how]
    environment = {**os.environ, "REGARD_CPU": name}
    done = subprocess.run(words, input=json.dumps(texts), env=environment, check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="zh-en")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="float32")
    parser.add_argument("--sentences", type=int, default=200)
    args = parser.parse_args(argv)
    lines = SENTENCES.read_text("utf-8").splitlines()
    texts = [line.split("\t")[0].split("|")[0] for line in lines if line and not line.startswith("#")][: args.sentences]
    names = [one.name for one in supported()]
    best = translate(texts, args, names[0], "together")
    print(f"{len(texts)} sentences, {args.precision}, beside {names[0]}")
    for name in names[1:]:
        show(name, best, translate(texts, args, name, "together"))
    show(f"{names[0]}, one at a time", best, translate(texts, args, names[0], "alone"))


def show(name: str, best: list[Any], found: list[Any]) -> None:
    pairs = list(zip(best, found, strict=True))
    equal = [(a[1], b[1]) for a, b in pairs if a[0] == b[0]]
    gap = max((abs(a - b) for a, b in equal), default=0.0)
    other = max((abs(a[1] - b[1]) for a, b in pairs if a[0] != b[0]), default=0.0)
    same = sum(a == b for a, b in pairs)
    print(f"{name:26} other texts {len(pairs) - len(equal):4}   bit for bit {same:4}   ", end="")
    print(f"scores of the same text differ by {gap:.1e}, of other texts by {other:.1e}")


if __name__ == "__main__":
    main()
