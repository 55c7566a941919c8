"""Accuracy on 200 everyday words and phrases, zh→en and en→zh: how many translations are in everyday.tsv.

    python bench/everyday.py                                   the installed models
    python bench/everyday.py --zh-en FOLDER --en-zh FOLDER     other models; --no-guards: without guards
    python bench/everyday.py --wrong                           list the wrong translations

A row of the list has Chinese forms and English senses, separated by |; the first of a side is translated, and all of
the other side are accepted. Case, punctuation, and a leading article or "to" are ignored.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard import Translator

LIST = Path(__file__).with_suffix(".tsv")
BEFORE = re.compile(r"^(?:a|an|the|to)\s+(?=\w)")
MARKS = re.compile(r"[^\w\s]|_")


def fold(text: str) -> str:
    words = " ".join(MARKS.sub("", text.replace("’", "'")).casefold().split())
    return BEFORE.sub("", words)


def read_list(path: Path = LIST) -> list[tuple[list[str], list[str]]]:
    """(Chinese, English) of each row, all forms."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line]
    return [(chinese.split("|"), english.split("|")) for chinese, english in rows]


def count(translator: Translator, asked: Sequence[str], accepted: Sequence[Sequence[str]]) -> dict[str, Any]:
    answers = translator(list(asked))
    wrong = {
        source: answer
        for source, answer, senses in zip(asked, answers, accepted, strict=True)
        if fold(answer) not in set(map(fold, senses))
    }
    right = len(asked) - len(wrong)
    return {"right": right, "of": len(asked), "share": right / len(asked), "wrong": wrong}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for way in ("zh-en", "en-zh"):
        parser.add_argument(f"--{way}", type=Path, help="model folder [the installed one]")
    parser.add_argument("--no-guards", action="store_true", help="translate without guards")
    parser.add_argument("--wrong", action="store_true", help="list the wrong translations")
    parser.add_argument("--json", type=Path, help="file for the results as JSON")
    args = parser.parse_args(argv)
    rows = read_list()
    found = {}
    for way, source in (("zh_en", 0), ("en_zh", 1)):
        languages = dict(zip(("source", "to"), way.split("_"), strict=True))
        translator = Translator(getattr(args, way), **languages, guards=not args.no_guards)
        asked, accepted = [row[source][0] for row in rows], [row[1 - source] for row in rows]
        found[way] = count(translator, asked, accepted)
        print(f"{way.replace('_', ' → ')}: {found[way]['right']} of {found[way]['of']}, {found[way]['share']:.1%}")
        if args.wrong:
            for text, answer in found[way]["wrong"].items():
                print(f"    {text}: {answer}")
    if args.json:
        args.json.write_text(json.dumps(found, ensure_ascii=False, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
