"""Start-up time of the command: --help, and the translation of one short sentence, each in a new process.

    python bench/startup.py

The baseline is `import torch`. The model is a toy, which loads quickly. With an empty cache, as after installation, the
kernels are compiled first. The bundled model is measured beside a minimal script that translates the same sentence with
ctranslate2 and sentencepiece and the exported model: seconds, and peak memory (VmHWM) in MB.
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
from peers import missing
from report import Comparison, Report, options
from workloads import TOY_VOCABULARY, config_of, make_tokenizer, write_random_model

from regard.interop.ctranslate2 import export_ctranslate2
from regard.model_folder.registry import BUNDLED, model_folders

REGARD = ("-m", "regard")


PEER = """
import sys, ctranslate2, sentencepiece
pieces = sentencepiece.SentencePieceProcessor(model_file=sys.argv[2])
translator = ctranslate2.Translator(sys.argv[1], intra_threads=1)
found = translator.translate_batch([pieces.encode(sys.argv[3], out_type=str)], beam_size=4)
print(pieces.decode(found[0].hypotheses[0]))
"""
OURS = 'import runpy; runpy.run_module("regard", run_name="__main__")'
# After the program, its peak memory on standard error; that of the process alone, unlike ru_maxrss.
WATCHED = """
import atexit, sys
from pathlib import Path
read = lambda: [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
atexit.register(lambda: print(read()[0].split()[1], file=sys.stderr))
"""


def python(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def seconds_the_first_time(*words: str) -> float:
    """Time of the command with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "REGARD_CACHE": cache}
        started = time.perf_counter()
        subprocess.run([sys.executable, *REGARD, *words], check=True, capture_output=True, env=variables)
        return time.perf_counter() - started


def peak_memory(program: str, *words: str) -> float:
    done = subprocess.run([sys.executable, "-c", WATCHED + program, *words], check=True, capture_output=True, text=True)
    return int(done.stderr.splitlines()[-1]) / 1000


def compare_bundled(folder: Path, repeats: int, report: Report) -> None:
    """`regard translate 我爱你` beside CTranslate2, in the same number formats."""
    bundled = next((path for path in model_folders(BUNDLED) if path.name == "zh-en"), None)
    if bundled is None or (reason := missing("ctranslate2")):
        report.leave_out("the bundled model", "it is not there" if bundled is None else reason)
        return
    programs: dict[str, tuple[str, ...]] = {}
    for form in ("int8", "float32"):
        export_ctranslate2(bundled, folder / form, form)
        programs[f"ctranslate2 {form}"] = (PEER, str(folder / form), str(bundled / "tokenizer.model"), "我爱你")
    for form in ("int8", "float32"):
        programs[f"regard translate {form}"] = (OURS, "translate", "我爱你", "--precision", form)
    base = next(iter(programs))
    seconds = seconds_in_turn({name: python("-c", *words) for name, words in programs.items()}, repeats)
    report.add(Comparison("start, 我爱你", "seconds", seconds, base, less_is_better=True))
    memory = {name: [peak_memory(*words) for _ in range(repeats)] for name, words in programs.items()}
    report.add(Comparison("peak memory, 我爱你", "MB", memory, base, less_is_better=True))


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
        figures = seconds_in_turn(works, args.repeats)
        if not args.toy:  # compiling takes half a minute
            first = [seconds_the_first_time(*translate) for _ in range(args.repeats)]
            figures["regard translate TEXT, empty cache"] = first
        report.add(Comparison("start", "seconds", figures, "import torch", less_is_better=True))
        compare_bundled(Path(temporary), args.repeats, report)
    report.write(args.json)


if __name__ == "__main__":
    main()
