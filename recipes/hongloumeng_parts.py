"""Long passages of Dream of the Red Chamber (红楼梦), labelled by their part: chapters 1 to 80, or 81 to 120.

    python recipes/hongloumeng_parts.py runs/hongloumeng
    regard train recipes/bert-hongloumeng-parts.toml

The last forty chapters are thought to be by another hand; so this is a question of style. Every fifth chapter is for
validation or, if it is a tenth one, for the test. A passage has at most 1,500 characters, and never parts of two
chapters. Writes train.tsv, valid.tsv and test.tsv: passage TAB label.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from regard.data.corpus import expand

HEADING = re.compile(r"第(\d+)章 .*")
LAST_OF_FIRST_PART = 80
LENGTH = 1500


def chapters(folder: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each chapter, without its heading."""
    number, lines = 0, [""]
    for name in ("train.txt.gz", "valid.txt.gz"):
        with gzip.open(folder / name, "rt", encoding="utf-8") as file:
            for line in file:
                if heading := HEADING.fullmatch(line.strip()):
                    yield number, "".join(lines)
                    number, lines = int(heading[1]), []
                else:
                    lines.append(line.strip())
    yield number, "".join(lines)


def split_of(chapter: int) -> str:
    if chapter % 5:
        return "train"
    return "test" if chapter % 10 == 0 else "valid"


def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number, text in chapters(expand("${REGARD_DATA}/lm-hongloumeng")):
        label = "1-80" if number <= LAST_OF_FIRST_PART else "81-120"
        starts = range(0, len(text) - LENGTH // 2, LENGTH)
        rows[split_of(number)] += [f"{text[start : start + LENGTH]}\t{label}\n" for start in starts]
    for split, found in rows.items():
        (output / f"{split}.tsv").write_text("".join(found), "utf-8")
        print(f"{output / split}.tsv: {len(found):,} passages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
