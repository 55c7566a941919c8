"""Share of generated Tang poems that have the requested form.

    python bench/poem_form.py --model runs/gpt-tang-poems/model

Samples 200 poems per form. A poem is correct if it has exactly eight lines of exactly the required number of
characters, each followed by a punctuation mark. With --known TRAINING_TEXT, it also counts the lines that were copied.
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

FORMS = ("五言八句", "七言八句")
MAX_TOKENS = 90  # seven characters and a mark, eight times, is 64


def correct_poems(poems: Sequence[str], form: str) -> list[str]:
    return [poem for poem in poems if form_of(poem) == form]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--poems", type=int, default=200, help="number of poems per form [200]")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=50)
    parser.add_argument("--known", type=Path, help="training text: count the lines copied from it")
    args = parser.parse_args(argv)
    writer = TextGenerator(args.model)
    known = set(re.split("[，。？！；：\n]", args.known.read_text("utf-8"))) if args.known else set()
    how = {"temperature": args.temperature, "top_k": args.top_k, "max_tokens": MAX_TOKENS, "seed": 1}
    for form in FORMS:
        poems = [one.text.strip() for one in writer.generate(f"{form}：", n=args.poems, **how)]
        right = correct_poems(poems, form)
        print(
            f"{form}: {len(right)} of {len(poems)} correct, {len(right) / len(poems):.1%}; {len(set(right))} distinct"
        )
        if known:
            lines = [line for poem in right for line in lines_of(poem)]
            print(f"    {sum(line in known for line in lines)} of their {len(lines):,} lines are in {args.known}")
        for poem in right[:3]:
            print(f"    {poem}")


if __name__ == "__main__":
    main()
