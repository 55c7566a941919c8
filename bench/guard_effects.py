"""What the guards do on a parallel corpus: scores with and without them, notes, and what each check changes.

    REGARD_DATA=data python bench/guard_effects.py                       Tatoeba, 1,000 validation sentences each way
    python bench/guard_effects.py --folder CORPUS --human 20000 --json out.json

For each problem that a check finds in the output of the model alone: how many sentences have it, and in how many of
those the guarded translation has a higher, equal or lower chrF against the reference. `--human N` applies the checks
to the first N human translations of the training text: what they find there is (nearly always) a false alarm.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics import CHRF

from regard import Translator
from regard.evaluation.scores import measure
from regard.guards.checks import find_problems
from regard.guards.language_pair import find_language_pair
from regard.text.normalise import normalise

SENTENCE_CHRF = CHRF()


def read(path: Path, count: int | None = None) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file][:count]


def effects(sources: Sequence[str], references: Sequence[str], src: str, tgt: str) -> dict[str, Any]:
    """Scores, notes and the effect of each check for one direction."""
    pair = find_language_pair(src, tgt)
    alone = Translator(source=src, to=tgt, guards=False)(list(sources))
    guarded = Translator(source=src, to=tgt).translate(list(sources))
    found: dict[str, Any] = {"sentences": len(sources), "changed": 0, "notes": [], "checks": defaultdict(Counter)}
    for source, raw, translation, reference in zip(sources, alone, guarded, references, strict=True):
        found["changed"] += raw != translation.text
        if translation.note:
            found["notes"].append((source, translation.text, translation.note, reference))
        problems = find_problems(normalise(source), raw, pair) or (["other"] if raw != translation.text else [])
        for problem in problems:
            before, after = (SENTENCE_CHRF.sentence_score(one, [reference]).score for one in (raw, translation.text))
            effect = "better" if after > before else "worse" if after < before else "equal"
            found["checks"][problem].update([effect, "found"])
    for name, outputs in (("alone", alone), ("guarded", [one.text for one in guarded])):
        found[name] = {one.name: one.score for one in measure(outputs, references, tgt)}
    return found


def human_alarms(sources: Sequence[str], references: Sequence[str], src: str, tgt: str) -> dict[str, Any]:
    """How many human translations the checks object to, by problem, with the first hundred examples of each."""
    pair = find_language_pair(src, tgt)
    examples: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, reference in zip(sources, references, strict=True):
        for problem in find_problems(normalise(source), normalise(reference), pair):
            examples[problem].append((source, reference))
    counts = {problem: len(each) for problem, each in examples.items()}
    return {"pairs": len(sources), "counts": counts, "examples": {name: each[:100] for name, each in examples.items()}}


def show(way: str, found: dict[str, Any]) -> None:
    print(f"{way}: {found['sentences']} sentences, {found['changed']} changed, {len(found['notes'])} with a note")
    for name in found["alone"]:
        print(f"    {name}: {found['alone'][name]:.2f} alone, {found['guarded'][name]:.2f} with guards")
    for problem, counts in found["checks"].items():
        print(
            f"    {problem}: " + ", ".join(f"{counts[name]} {name}" for name in ("found", "better", "equal", "worse"))
        )
    if "human" in found:
        print(f"    human translations objected to, of {found['human']['pairs']}: {found['human']['counts']}")


def main(argv: Sequence[str] | None = None) -> None:
    tatoeba = Path(os.environ.get("REGARD_DATA", "data")) / "tatoeba-zh-en"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=tatoeba, help="folder with valid and train, .zh.gz and .en.gz")
    parser.add_argument("--count", type=int, help="validation sentences [all]")
    parser.add_argument("--human", type=int, default=0, help="human translations to check")
    parser.add_argument("--json", type=Path, help="file for the results, with all notes")
    args = parser.parse_args(argv)
    results = {}
    for src, tgt in (("zh", "en"), ("en", "zh")):
        sources, references = (read(args.folder / f"valid.{lang}.gz", args.count) for lang in (src, tgt))
        found = effects(sources, references, src, tgt)
        if args.human:
            texts = (read(args.folder / f"train.{lang}.gz", args.human) for lang in (src, tgt))
            found["human"] = human_alarms(*texts, src, tgt)
        results[f"{src}-{tgt}"] = found
        show(f"{src} → {tgt}", found)
    if args.json:
        args.json.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
