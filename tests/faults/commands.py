"""Run every command with random arguments, recipes and files: each ends with a documented code and a sentence.

    python tests/faults/commands.py --cases 10000 --seed 1 --processes 20

The cases run in this process, one after the other, as a person's would: arguments, standard input, exit code. A fault
is a traceback, an exit code that is not documented (70, too: it is an unexpected error), more than ten seconds of the
processor's time, or memory that goes on growing. Some cases run once more as processes of their own, and must end the
same. Prints the counts as JSON; exit code 1 if there was a fault.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["REGARD_NATIVE"] = "0"  # the kernels have tests of their own, and else each cache would compile them

import torch

sys.path.insert(0, str(Path(__file__).parent))

from command_cases import DATA, RECIPE, Case, Cases, printable
from folder_samples import huggingface_folders, our_folders
from hostile_server import HostileServer

from regard.cli.main import main
from regard.data import fetch
from regard.data.published import published_corpora
from regard.network import download

DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 8}  # nobody interrupts them
SECONDS = 10  # of processor time
BLOCKED = 300  # seconds that a case may wait, on however busy a machine
GROWTH = 300_000_000  # bytes, between the first and the last third of the cases
FRESH = 50  # cases after which the folder is emptied


class Hang(BaseException):
    def __init__(self, number: int, frame: FrameType | None) -> None:
        super().__init__(f"no end: {''.join(traceback.format_stack(frame)[-3:])}")


def stop(number: int, frame: FrameType | None) -> None:
    raise Hang(number, frame)


class Fuzzer:
    def __init__(self, scratch: Path, seed: int) -> None:
        self.scratch, self.work, self.models = scratch, scratch / "work", scratch / "models"
        os.environ["REGARD_CACHE"] = str(scratch / "cache")
        os.environ["REGARD_MODELS"] = str(self.models)
        os.environ["REGARD_DATA"] = str(scratch / "data")
        os.environ.pop("REGARD_MODEL", None)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.seed = seed
        signal.signal(signal.SIGPROF, stop)
        signal.signal(signal.SIGALRM, stop)
        self.prepare()

    def prepare(self) -> None:
        """Models to work with: for two directions, in a run, and damaged."""
        self.work.mkdir()
        self.models.mkdir()
        os.chdir(self.scratch)
        for name, src, tgt in (("a", "zh", "en"), ("b", "en", "zh")):
            (self.scratch / "recipe.toml").write_text(RECIPE + DATA)
            languages = ("--set", f"data.src_lang={src}", "--set", f"data.tgt_lang={tgt}")
            code, text = self.run(Case(["train", "recipe.toml", "--run", name, *languages], b""))
            assert code == 0, text
            shutil.copytree(self.scratch / name / "model", self.models / f"{src}-{tgt}")
        others = our_folders(self.scratch / "ours")
        hub = huggingface_folders(self.scratch / "hub")
        self.serve(list(hub.values()))
        damaged = shutil.copytree(self.models / "zh-en", self.scratch / "damaged")
        (damaged / "config.json").write_text("{}")
        paths = [self.models / "zh-en", self.models / "en-zh", self.scratch / "a", self.scratch / "b", damaged]
        checkpoint = next((self.scratch / "a" / "checkpoints").iterdir())
        paths += [checkpoint, *others.values(), *hub.values()]
        names = [*map(str, paths), "zh-en", "en-zh"]
        self.cases = Cases(self.seed, self.work, names, self.server.names, self.server.corpora)

    def serve(self, models: list[Path]) -> None:
        """What is downloaded comes from a server of our own, and nobody waits between two attempts."""
        self.server = HostileServer(models, self.scratch / "published.toml", self.seed)
        os.environ |= {"HF_ENDPOINT": self.server.url, "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1"}
        published_corpora.__defaults__ = (self.scratch / "published.toml",)
        for module in (fetch, download):
            module.ATTEMPTS = 2  # type: ignore[misc]
        fetch.fetch_corpus.__defaults__ = (*(fetch.fetch_corpus.__defaults__ or ())[:-1], 0.0)
        download.download.__defaults__ = (*(download.download.__defaults__ or ())[:-1], 0.0)

    def run(self, case: Case) -> tuple[int, str]:
        """The exit code, and all that was printed."""
        sys.argv = ["regard", *case.arguments]
        standard = sys.stdin, sys.stdout, sys.stderr
        printed = io.BytesIO()
        sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin), "utf-8")
        sys.stdout = sys.stderr = io.TextIOWrapper(printed, "utf-8", "backslashreplace", write_through=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(BLOCKED)
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            code = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            text = printed.getvalue().decode("utf-8", "replace")
            sys.stdin, sys.stdout, sys.stderr = standard
        return (code, text) if isinstance(code, int) else (-1, f"{text}{code}")

    def check(self, case: Case) -> tuple[int, str]:
        code, text = self.run(case)
        self.counts[f"exit code {code}"] += 1
        if code not in DOCUMENTED or "Traceback" in text:
            log = next(
                (
                    Path(word.rstrip(";"))
                    for word in text.split()
                    if word.startswith(str(self.scratch)) and ".log;" in word
                ),
                None,
            )
            detail = log.read_text()[-1500:] if log and log.exists() else text[-1500:]
            recipe = self.work / "recipe.toml"
            settings = recipe.read_bytes()[:2000] if recipe.name in case.arguments and recipe.is_file() else b""
            self.faults.append(f"{printable(case)}\nexit code {code}\n{detail}\n{settings.decode('utf-8', 'replace')}")
            print(self.faults[-1], file=sys.stderr, flush=True)
        return code, text

    def check_process(self, case: Case, expected: int) -> None:
        """The same case as a process, which may not meet what another case has left."""
        command = [os.fsencode(word) for word in (sys.executable, "-m", "regard", *case.arguments)]
        done = subprocess.run(command, input=case.stdin, capture_output=True, timeout=BLOCKED)
        self.counts["processes"] += 1
        if done.returncode != expected or b"Traceback" in done.stderr:
            self.faults.append(
                f"{printable(case)}\nas a process {done.returncode}, not {expected}\n{done.stderr[-1500:]!r}"
            )

    def fuzz(self, cases: int, processes: int) -> None:
        os.chdir(self.work)
        sizes = []
        every = cases // processes if processes else cases + 1
        for number in range(cases):
            if number % FRESH == 0:
                for path in (*self.work.iterdir(), *self.models.glob("[!ze]*"), *(self.scratch / "data").glob("*")):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            case = self.cases.draw()
            code, _ = self.check(case)
            downloads = case.arguments[:2] in (["models", "get"], ["data", "get"])  # other answers, and longer pauses
            if number % every == every - 1 and not any(self.work.glob("out*")) and not downloads:
                self.check_process(case, code)
            if number % FRESH == FRESH - 1 or number == cases - 1:
                sizes.append(held())
            if number % 1000 == 999:
                print(f"{number + 1} cases, {len(self.faults)} faults", file=sys.stderr, flush=True)
        self.growth = sizes[-1] - sizes[len(sizes) // 3]
        if self.growth > GROWTH:
            self.faults.append(f"memory has grown by {self.growth / 1e6:.0f} MB in the last two thirds of the cases")


def held() -> int:
    """Bytes in memory, without what the C library keeps for later: training tells it to keep what it frees."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def fuzz() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0, help="how many of the cases run as processes, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="regard-commands-") as scratch:
        fuzzer = Fuzzer(Path(scratch), options.seed)
        try:
            fuzzer.fuzz(options.cases, options.processes)
        finally:
            fuzzer.server.close()
            os.chdir("/")
    report = {"cases": options.cases, "counts": dict(sorted(fuzzer.counts.items())), "growth": fuzzer.growth}
    print(json.dumps({**report, "faults": fuzzer.faults}, ensure_ascii=False))
    return bool(fuzzer.faults)


if __name__ == "__main__":
    sys.exit(fuzz())
