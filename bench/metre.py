"""How many of the poems that a model writes have the form that was asked for.

    python bench/metre.py --model runs/gpt-tang-poems/model

Two hundred poems of each form are drawn. One is right if it has exactly eight lines, each of exactly so many
characters, with a mark after each and nothing else. With --known the training text: how many of their lines stand in
it as they are.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.pipelines.text_generator import TextGenerator

sys.path.insert(0, str(Path(__file__).parent.parent / "recipes"))
from tang_forms import form_of, lines_of

NUMBER_FORMATS = ("五言八句", "七言八句")
MOST_TOKENS = 90  # seven characters and a mark, eight times, is 64


def right_ones(poems: Sequence[str], form: str) -> list[str]:
    return [poem for poem in poems if form_of(poem) == form]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--poems", type=int, default=200, help="of each form")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=50)
    parser.add_argument("--known", type=Path, help="the training text: count the lines that stand in it")
    args = parser.parse_args(argv)
    writer = TextGenerator(args.model)
    known = set(re.split("[，。？！；：\n]", args.known.read_text("utf-8"))) if args.known else set()
    how = {"temperature": args.temperature, "top_k": args.top_k, "max_tokens": MOST_TOKENS, "seed": 1}
    for form in NUMBER_FORMATS:
        poems = [one.text.strip() for one in writer.generate(f"{form}：", n=args.poems, **how)]
        right = right_ones(poems, form)
        print(f"{form}: {len(right)} of {len(poems)} have it, {len(right) / len(poems):.1%}; {len(set(right))} differ")
        if known:
            lines = [line for poem in right for line in lines_of(poem)]
            print(f"    {sum(line in known for line in lines)} of their {len(lines):,} lines stand in {args.known}")
        for poem in right[:3]:
            print(f"    {poem}")


if __name__ == "__main__":
    main()
