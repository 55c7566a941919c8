"""Tang poems preceded by their form, so that a model trained on them generates the form in the prompt.

    python recipes/tang_forms.py runs/tang
    regard train recipes/gpt-tang-poems.toml
    regard generate "七言八句：" --model runs/gpt-tang-poems/model

Writes train.txt and valid.txt, one poem per line. 五言八句 is eight lines of five characters, 七言四句 four of
seven, and so on; a poem with lines of different lengths is 杂言.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

from regard.data.corpus import expand

NUMBERS = dict(enumerate("零一二三四五六七八九十"))
LINE = re.compile(r"([^，。？！；]+)[，。？！；]")


def lines_of(poem: str) -> list[str]:
    """The lines of a poem in which every line ends with a punctuation mark; else none."""
    found = LINE.findall(poem)
    return found if LINE.sub("", poem) == "" else []


def form_of(poem: str) -> str:
    lines = lines_of(poem)
    lengths = {len(line) for line in lines}
    if len(lengths) != 1 or min(lengths) not in NUMBERS:
        return "杂言"
    return f"{NUMBERS[lengths.pop()]}言{NUMBERS.get(len(lines), '多')}句"


def main(output: Path) -> None:
    source = expand("${REGARD_DATA}/lm-tang-poems")
    output.mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid"):
        with gzip.open(source / f"{split}.tsv.gz", "rt", encoding="utf-8") as rows:
            poems = [row.rstrip("\n").split("\t")[2] for row in rows]
        text = "".join(f"{form_of(poem)}：{poem}\n" for poem in poems)
        (output / f"{split}.txt").write_text(text, "utf-8")
        print(f"{output / split}.txt: {len(poems):,} poems")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
