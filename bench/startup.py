"""Start-up time of the command: --help, and the translation of one short sentence, each in a new process.

    python bench/startup.py

The baseline is `import torch`. The model is a toy, which loads quickly; the bundled model is measured too. With an
empty cache, as after installation, the kernels are compiled first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from interleaved import seconds_in_turn
from report import Comparison, Report, options
from workloads import TOY_VOCABULARY, config_of, make_tokenizer, write_random_model

from regard.model_folder.registry import BUNDLED, model_folders

REGARD = ("-m", "regard")


def python(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def seconds_the_first_time(*words: str) -> float:
    """Time of the command with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "REGARD_CACHE": cache}
        started = time.perf_counter()
        subprocess.run([sys.executable, *REGARD, *words], check=True, capture_output=True, env=variables)
        return time.perf_counter() - started


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "model"
        write_random_model(model, config_of("toy"), make_tokenizer(None, TOY_VOCABULARY))
        translate = ("translate", "two dogs", "--model", str(model))
        works = {
            "import torch": python("-c", "import torch"),
            "regard --help": python(*REGARD, "--help"),
            "regard translate --help": python(*REGARD, "translate", "--help"),
            "regard translate TEXT": python(*REGARD, *translate),
        }
        if model_folders(BUNDLED):
            works["regard translate 我爱你"] = python(*REGARD, "translate", "我爱你")
        figures = seconds_in_turn(works, args.repeats)
        if not args.toy:  # compiling takes half a minute
            first = [seconds_the_first_time(*translate) for _ in range(args.repeats)]
            figures["regard translate TEXT, empty cache"] = first
    report.add(Comparison("start", "seconds", figures, "import torch", less_is_better=True))
    report.write(args.json)


if __name__ == "__main__":
    main()
