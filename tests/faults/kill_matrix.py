"""Kill commands at chosen and at random moments, and run them again: nothing is lost, nothing half-written believed.

    python tests/faults/kill_matrix.py --kills 300 --at events,moments,calls

Three kinds of moments: before the n-th event of the interpreter that opens a file for writing, renames, deletes or
makes something ("events", the same on every machine); before the n-th system call of a kind, injected by strace
("calls"); and after a random time ("moments").

After each kill, the command runs again, undisturbed. It must succeed, and leave the same files with the same contents
as a run that was never disturbed; leftovers of the killed run must be gone. Before it runs again, what has its final
name must be whole.

Two kinds of full disks: no file may grow beyond a random size ("sizes"), and a tmpfs with too little room, where
mounting is allowed ("disks"). There the command must end by itself with a documented code; then it runs again as above.

Which files can be compared is found out by two undisturbed runs: what differs between them, such as times, is left out.
Prints the counts as JSON; exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= {"OMP_NUM_THREADS": "1", "REGARD_NATIVE": "0"}  # without kernels: they have tests of their own

import torch

sys.path.insert(0, str(Path(__file__).parent))

from kill_scenarios import PIECE, RECIPE, SCENARIOS, Loopback, Scenario

import regard as package
from regard.cli.main import main as regard
from regard.errors import RegardError
from regard.model_folder.folder import read_description, read_weights
from regard.network import download

CALLS = (
    "write",
    "pwrite64",
    "fsync",
    "rename",
    "renameat2",
    "mkdir",
    "unlink",
    "unlinkat",
    "rmdir",
    "openat",
    "fchmod",
    "chmod",
)
WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink")
PATIENCE = 900.0  # seconds that an undisturbed command may take, on however busy a machine and disk
ENDINGS = (0, 1, 2, 3, 4, 5, 8)  # documented exit codes on a full disk; 8: of a download
Contents = dict[str, bytes]


class Ended(NamedTuple):
    code: int  # negative: the signal that ended it
    output: str
    seconds: float
    events: int


def start(work: Path, arguments: tuple[str, ...], kill_at: int, released: int, largest: int | None) -> int:
    """Fork a process that runs the command as soon as `released` can be read, and kills itself at an event."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        os.chdir(work)
        os.environ |= {f"REGARD_{name.upper()}": str(work / name) for name in ("cache", "data", "models")}
        handle = os.open(work.parent / f"{work.name}.output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        sys.argv = ["regard", *arguments]
        events = count_events(kill_at)
        os.read(released, 1)
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        try:
            regard()
        except SystemExit as end:
            code = int(end.code or 0)
        (work.parent / f"{work.name}.events").write_text(str(events()))
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def count_events(kill_at: int) -> Callable[[], int]:
    """Count the interpreter's events that change files, and end the process before the one of this number."""
    seen = 0

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        writes = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if writes or event in WRITES:
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return lambda: seen


def run(
    work: Path,
    arguments: tuple[str, ...],
    kill_at: int = 0,
    after: float = PATIENCE,
    call: str = "",
    largest: int | None = None,
) -> Ended:
    """Run the command: to its end, or until a moment; `call` is what strace is to inject, such as "rename:when=2"."""
    wait_for, release = os.pipe()
    began = time.monotonic()
    pid = start(work, arguments, kill_at, wait_for, largest)
    os.close(wait_for)
    tracer = attach(pid, work, call) if call else None
    os.write(release, b".")
    os.close(release)
    timer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    timer.start()
    _, status = os.waitpid(pid, 0)
    timer.cancel()
    if tracer is not None:
        tracer.wait()
    counted = work.parent / f"{work.name}.events"
    events = int(counted.read_text() or 0) if counted.exists() else 0  # empty: killed while it was written
    printed = work.parent / f"{work.name}.output"  # a process may be killed before it has one
    output = printed.read_text("utf-8", "replace") if printed.exists() else ""
    return Ended(os.waitstatus_to_exitcode(status), output, time.monotonic() - began, events)


def attach(pid: int, work: Path, call: str) -> subprocess.Popen[str]:
    options = ["-e", f"inject={call}:signal=KILL"] if "when" in call else []
    trace = ["-e", f"trace={call.partition(':')[0]}"]
    log = str(work.parent / f"{work.name}.calls")
    command = ["strace", "-p", str(pid), "-o", log, *trace, *options]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    assert "attached" in tracer.stderr.readline()
    return tracer


def count_calls(work: Path) -> Counter[str]:
    lines = (work.parent / f"{work.name}.calls").read_text("utf-8", "replace").splitlines()
    return Counter(match[1] for line in lines if (match := re.match(r"(\w+)\(", line)) and match[1] in CALLS)


def ending(code: int) -> str:
    return "killed" if code == -9 else f"exit code {code}"


def contents(folder: Path) -> Contents:
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in found.items()}


class Matrix:
    """The scenarios in a scratch folder, with what undisturbed runs leave."""

    def __init__(self, scratch: Path, seed: int, at: tuple[str, ...]) -> None:
        self.scratch, self.random, self.at = scratch, random.Random(seed), at
        self.base = scratch / "base"
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.number = 0
        self.prepare()

    def prepare(self) -> None:
        """What the commands work on: a trained run, its data in a cache, a Hugging Face folder, texts."""
        self.base.mkdir()
        (self.base / "toy.toml").write_text(RECIPE)
        (self.base / "in.txt").write_text("a b c\nd\n\n" * 40)
        for name in ("out.txt", "map.svg"):
            (self.base / name).write_text("from before\n")
        for arguments in (SCENARIOS[0].arguments, ("export", "hf", "run/model", "-o", "hf")):
            ended = run(self.base, arguments)
            assert ended.code == 0, ended.output
        shutil.copytree(self.base / "run" / "model", self.base / "models" / "installed")
        self.loopback = Loopback(self.scratch, self.base / "hf")

    def close(self) -> None:
        self.loopback.close()

    def folder(self, scenario: Scenario) -> Path:
        """A new folder with what the scenario needs."""
        self.number += 1
        work = self.scratch / f"{self.number}"
        work.mkdir()
        for name in scenario.needs:
            source = self.base / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, work / name)
        return work

    def remove(self, work: Path) -> None:
        shutil.rmtree(work)
        for left in self.scratch.glob(f"{work.name}.*"):
            left.unlink()

    def measure(self, scenario: Scenario) -> tuple[Contents, set[str], Ended, Counter[str]]:
        """What undisturbed runs leave, the files that are the same in both, how long one takes, its system calls."""
        first, second = self.folder(scenario), self.folder(scenario)
        ended = [run(first, scenario.arguments), run(second, scenario.arguments)]
        assert [one.code for one in ended] == [0, 0], ended[0].output
        left, other = contents(first), contents(second)
        assert set(left) == set(other), f"{scenario.name}: {set(left) ^ set(other)}"
        same = {name for name in left if left[name] == other[name]}
        if not set(scenario.outputs).isdisjoint(left):
            assert any(name.endswith((".safetensors", ".bin", ".txt", ".svg", ".gz")) for name in same)
        calls: Counter[str] = Counter()
        if "calls" in self.at:
            third = self.folder(scenario)
            assert run(third, scenario.arguments, call=",".join(CALLS)).code == 0
            calls = count_calls(third)
            self.remove(third)
        self.remove(first), self.remove(second)
        return left, same, ended[1], calls

    def attack(self, scenario: Scenario, kills: int) -> None:
        whole, same, ended, calls = self.measure(scenario)
        for number in range(kills):
            kind = self.at[number % len(self.at)]
            work = self.folder(scenario)
            before = contents(work)
            match kind:
                case "events":
                    where = f"event {self.random.randint(1, ended.events)}"
                    killed = run(work, scenario.arguments, kill_at=int(where.split()[1]))
                case "calls":
                    name = self.random.choice(sorted(calls))
                    where = f"{name}:when={self.random.randint(1, calls[name])}"
                    killed = run(work, scenario.arguments, call=where)
                case "sizes":
                    where = f"size {self.random.randint(0, max(map(len, whole.values()), default=0))}"
                    killed = run(work, scenario.arguments, largest=int(where.split()[1]))
                case "disks":
                    room = self.random.randint(4096, max(4096, sum(map(len, whole.values()))))
                    where = f"disk with {room} bytes left"
                    self.move_to_disk(work, room)
                    killed = run(work, scenario.arguments)
                    subprocess.run(["mount", "-o", "remount,size=1g", work], check=True)
                case _:
                    where = f"moment {self.random.uniform(0, ended.seconds):.3f}"
                    killed = run(work, scenario.arguments, after=float(where.split()[1]))
            self.counts[f"{scenario.name}, {kind}: {ending(killed.code)}"] += 1
            if kind in ("sizes", "disks") and (killed.code not in ENDINGS or "Traceback" in killed.output):
                self.wrong.append(f"{scenario.name}, {where}: it ends with {killed.code}: {killed.output[-500:]}")
            for fault in self.faults(scenario, work, before, whole, same):
                self.wrong.append(f"{scenario.name}, killed at {where}: {fault}")
                print(self.wrong[-1], file=sys.stderr, flush=True)
            if kind == "disks":
                subprocess.run(["umount", work], check=True)
            self.remove(work)

    def move_to_disk(self, work: Path, room: int) -> None:
        """Put a tmpfs in the place of a folder, with the same files and so many more bytes."""
        files = work.rename(work.with_name(f"{work.name}-files"))
        work.mkdir()
        size = sum(-(-len(content) // 4096) * 4096 for content in contents(files).values())
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size + room}", "regard", work], check=True)
        shutil.copytree(files, work, dirs_exist_ok=True)
        shutil.rmtree(files)

    def faults(self, scenario: Scenario, work: Path, before: Contents, whole: Contents, same: set[str]) -> list[str]:
        found = [
            f"{name} is neither whole nor as before"
            for name in scenario.outputs
            if not self.whole(work, name, before, whole, same)
        ]
        for name in scenario.models:
            try:
                read_description(work / name), read_weights(work / name)
            except RegardError as error:
                found.append(f"a model was lost: {error}")
        arguments = scenario.arguments
        if arguments[0] == "train" and (work / "run" / "config.json").exists():
            arguments += ("--resume",)
        if not scenario.once or not (work / scenario.outputs[0]).exists():
            again = run(work, arguments)
            if again.code not in scenario.when_done:
                return [*found, f"it ends with {again.code} when it is run again: {again.output[-500:]}"]
        after = contents(work)
        left = sorted(set(after) - set(whole))
        found += [
            f"{name} is left" for name in left if not any(fnmatch.fnmatch(name, one) for one in scenario.leftovers)
        ]
        found += [f"{name} is missing" for name in sorted(set(whole) - set(after))]
        return found + [f"{name} is different" for name in sorted(same & set(after)) if after[name] != whole[name]]

    def whole(self, work: Path, name: str, before: Contents, whole: Contents, same: set[str]) -> bool:
        now = {path: content for path, content in contents(work).items() if path == name or path.startswith(f"{name}/")}
        if now == {path: content for path, content in before.items() if path == name or path.startswith(f"{name}/")}:
            return True
        wanted = {path for path in whole if path == name or path.startswith(f"{name}/")}
        return set(now) == wanted and all(now[path] == whole[path] for path in wanted & same)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", default="events,moments", help="kinds: events, moments, calls, sizes, disks")
    parser.add_argument("--only", help="one scenario")
    return parser.parse_args()


def import_all() -> None:
    """All of Regard, once: the processes that are forked from this one need not import it, and are killed at work."""
    for module in pkgutil.walk_packages(package.__path__, "regard."):
        if not module.name.endswith((".__main__", ".toy_process")):
            importlib.import_module(module.name)


def run_matrix() -> int:
    options = parse()
    torch.set_num_threads(1)
    import_all()
    download.CHUNK = PIECE
    at = tuple(options.at.split(","))
    if "calls" in at and shutil.which("strace") is None:
        sys.exit("strace is not installed; leave out calls (--at events,moments)")
    scenarios = [one for one in SCENARIOS if options.only in (None, one.name)]
    with tempfile.TemporaryDirectory(prefix="regard-kills-") as scratch:
        matrix = Matrix(Path(scratch), options.seed, at)
        try:
            for number, scenario in enumerate(scenarios):
                share = options.kills // len(scenarios) + (number < options.kills % len(scenarios))
                matrix.attack(scenario, share)
                print(f"{scenario.name}: {share} kills, {len(matrix.wrong)} faults so far", file=sys.stderr, flush=True)
        finally:
            matrix.close()
    print(json.dumps({"kills": sum(matrix.counts.values()), "wrong": matrix.wrong, "counts": dict(matrix.counts)}))
    return bool(matrix.wrong)


if __name__ == "__main__":
    sys.exit(run_matrix())
