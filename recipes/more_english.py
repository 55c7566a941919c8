"""Everyday English without a Chinese translation, for back-translation: more data for the Chinese → English model.

    python recipes/more_english.py runs/back-translated/en.txt
    regard translate runs/back-translated/en.txt --from en --to zh --beam 1 --output runs/back-translated/zh.txt

The sentences are those of Tatoeba that have a German translation (REGARD_DATA's tatoeba-de-en; CC-BY 2.0 FR), without
those that tatoeba-zh-en has in any of its splits: no test sentence may be in the training data.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from regard.data.corpus import expand
from regard.data.lines import read_lines
from regard.model_folder.atomic import atomic_write

SPLITS = ("train", "valid", "test")


def lines(corpus: str, split: str) -> Iterator[str]:
    return read_lines(expand(f"${{REGARD_DATA}}/{corpus}/{split}.en.gz"))


def same(sentence: str) -> str:
    """A key that is equal for sentences with the same letters and digits, ignoring case."""
    return "".join(c for c in unicodedata.normalize("NFKC", sentence).lower() if c.isalnum())


def more_english() -> list[str]:
    known = {same(line) for split in SPLITS for line in lines("tatoeba-zh-en", split)}
    found = {same(line): line for split in SPLITS for line in lines("tatoeba-de-en", split)}
    return [line for key, line in found.items() if key and key not in known]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    sentences = more_english()
    atomic_write(path, "".join(f"{line}\n" for line in sentences).encode())
    print(f"{path}: {len(sentences):,} sentences")
