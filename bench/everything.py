"""Every benchmark, one after the other, each in its own process; then one table, and one JSON file in bench/results/.

python bench/everything.py                 # the better part of an hour on two cores
python bench/everything.py --toy --repeats 1
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

SCRIPTS = ("limits", "pieces", "train", "decode", "search_pieces", "memory", "startup", "scaling")
HERE = Path(__file__).parent


def run(script: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Its output goes where ours goes; its JSON comes back."""
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
    print("\n== the best of ours beside the best of the others (above 1: ours is better)\n")
    print(summary([comparison(found) for result in results.values() for found in result["comparisons"]]))
    print(f"\nevery figure: {output}")
    if failed := [script for script, result in results.items() if "failed" in result]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
