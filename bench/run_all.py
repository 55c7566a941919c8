"""Run all benchmarks, each in its own process; print a summary and write one JSON file to bench/results/.

python bench/run_all.py                 # about an hour on two cores
python bench/run_all.py --toy --repeats 1
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from report import Comparison, options, summary

SCRIPTS = (
    *("hardware", "training_operations", "train", "decode", "searches", "families"),
    *("decoding_choices", "memory", "startup", "scaling", "context"),
)
HERE = Path(__file__).parent


def run(script: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run a script and return its JSON."""
    print(f"\n== {script}", flush=True)
    path = folder / f"{script}.json"
    code = subprocess.run([sys.executable, HERE / f"{script}.py", *words, "--json", path]).returncode
    if code:
        return {"failed": code, "comparisons": []}
    return dict(json.loads(path.read_text("utf-8")))


def comparison(found: dict[str, Any]) -> Comparison:
    return Comparison(**{field.name: found[field.name] for field in fields(Comparison)})


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    started = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    output = args.json or HERE / "results" / f"{started}.json"
    words = ["--repeats", str(args.repeats), *(["--toy"] if args.toy else [])]
    with tempfile.TemporaryDirectory() as temporary:
        results = {script: run(script, words, Path(temporary)) for script in SCRIPTS}
    output.parent.mkdir(parents=True, exist_ok=True)
    content = {"started": started, "repeats": args.repeats, "toy": args.toy, "results": results}
    output.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    print("\n== best of Regard relative to the best of the others (above 1: Regard is better)\n")
    print(summary([comparison(found) for result in results.values() for found in result["comparisons"]]))
    print(f"\nall results: {output}")
    if failed := [script for script, result in results.items() if "failed" in result]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
