"""How long the command takes to begin: help, which imports nothing heavy, and one short sentence, from start to end.

    python bench/startup.py

Each is a new process; importing PyTorch alone is the measure. The model is a toy, so that loading it costs little;
where there is one that came with the package, it is asked too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from interleaved import seconds_in_turn
from report import Comparison, Report, options
from work import TOY_VOCABULARY, config_of, make_tokenizer, write_random_model

from regard.shelf import BUNDLED, model_folders

REGARD = ("-m", "regard.cli.main")


def python(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "model"
        write_random_model(model, config_of("toy"), make_tokenizer(None, TOY_VOCABULARY))
        works = {
            "import torch": python("-c", "import torch"),
            "regard --help": python(*REGARD, "--help"),
            "regard translate --help": python(*REGARD, "translate", "--help"),
            "regard translate TEXT": python(*REGARD, "translate", "two dogs", "--model", str(model)),
        }
        if model_folders(BUNDLED):
            works["regard translate 我爱你"] = python(*REGARD, "translate", "我爱你")
        figures = seconds_in_turn(works, args.repeats)
    report.add(Comparison("start", "seconds", figures, "import torch", less_is_better=True))
    report.write(args.json)


if __name__ == "__main__":
    main()
