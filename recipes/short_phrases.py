"""Tatoeba's shortest sentences without their final punctuation: users type 你好 as often as 你好。

python recipes/short_phrases.py runs/phrases/zh-en.tsv
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from regard.data.corpus import expand
from regard.data.lines import read_lines
from regard.model_folder.atomic import atomic_write

ENDS = "。！？.!? "
LONGEST = 2  # Chinese characters: longer ones are mostly sentences, which should keep their punctuation


def lines(lang: str) -> Iterator[str]:
    return read_lines(expand(f"${{REGARD_DATA}}/tatoeba-zh-en/train.{lang}.gz"))


def short_phrases() -> list[tuple[str, str]]:
    pairs = [(zh.rstrip(ENDS), en.rstrip(ENDS)) for zh, en in zip(lines("zh"), lines("en"), strict=True)]
    return [(zh, en) for zh, en in pairs if zh and en and len(zh) <= LONGEST]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    phrases = short_phrases()
    atomic_write(path, "".join(f"{zh}\t{en}\n" for zh, en in phrases).encode())
    print(f"{path}: {len(phrases):,} phrases")
