"""Kill the server, or the training that it has started, at random moments: no file of a run is lost or half-written.

    python tests/faults/kill_server.py --kills 20

Each time, `regard explore` is started, asked for a toy training, and killed: the server before an event that changes a
file or at a random time, the training at a random time, or both at once. The training must end with the server, and
every model and checkpoint in the runs must be whole. Then a new server shows the runs and translates, the run is
resumed to its end, and nothing may be left of the killed processes. Prints the counts as JSON; exit code 1 if anything
went wrong.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kill_matrix import PATIENCE, SCENARIOS, import_all, run, start
from kill_scenarios import RECIPE

from regard.errors import RegardError
from regard.model_folder.folder import read_description, read_weights
from regard.serve.toy import RECIPE as TOY
from regard.train.checkpoint import find_damage
from regard.train.run_folder import RunFolder

EXPLORE = ("explore", "--no-browser", "--port", "0", "--model", "run/model", "--runs", "runs")
SECONDS = 5  # of a toy training, the least
WHOM = ("server", "training", "both", "event")
EVENTS = 12  # at most so many of the server's events are waited for


class Server:
    """The command as a process, which may be killed before it answers."""

    def __init__(self, work: Path, kill_at: int = 0) -> None:
        self.output = work.parent / f"{work.name}.output"
        self.output.unlink(missing_ok=True)  # of the one before
        wait_for, release = os.pipe()
        self.work, self.process = work, start(work, EXPLORE, kill_at, wait_for, None)
        os.close(wait_for), os.write(release, b"."), os.close(release)
        self.code: int | None = None

    def ended(self) -> bool:
        if self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if process else None
        return self.code is not None

    def port(self) -> int | None:
        """Where it answers; None: it has ended."""
        while not self.ended():
            said = self.output.read_text("utf-8") if self.output.exists() else ""
            if found := re.search(r"http://127.0.0.1:(\d+)/", said):
                return int(found[1])
            time.sleep(0.05)
        return None

    def ask(self, port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(content) if is_json else content
        finally:
            connection.close()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        if not self.ended():
            os.kill(self.process, number)
            _, status = os.waitpid(self.process, 0)
            self.code = os.waitstatus_to_exitcode(status)
        assert self.code is not None
        return self.code


def training_process(work: Path) -> int | None:
    """The id of the process that trains for the server."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if b"toy_process" in (path / "cmdline").read_bytes() and (path / "cwd").resolve() == work:
                return int(path.name)
    return None


def wait_for_end(process: int) -> bool:
    """Whether a process that is not our child ends."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE)[0])
    finally:
        os.close(handle)


class Attack:
    def __init__(self, scratch: Path, seed: int) -> None:
        self.scratch, self.random = scratch.resolve(), random.Random(seed)
        self.base = self.scratch / "base"
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.base.mkdir()
        (self.base / "toy.toml").write_text(RECIPE)
        ended = run(self.base, SCENARIOS[0].arguments)
        assert ended.code == 0, ended.output

    def attack(self, number: int) -> None:
        work = self.scratch / f"{number}"
        (work / "runs").mkdir(parents=True)
        for name in ("run", "cache"):
            shutil.copytree(self.base / name, work / name)
        whom = WHOM[number % len(WHOM)]
        server = Server(work, self.random.randint(1, EVENTS) if whom == "event" else 0)
        port, moment = server.port(), self.random.uniform(0, 2 * SECONDS)
        training = None
        with suppress(OSError, http.client.HTTPException):  # killed at an event
            if port is not None:
                server.ask(port, "POST", "/api/toy", {"task": "copy", "seconds": SECONDS})
                training = training_process(work)
                self.wait(server, training, moment, self.random.random() < 0.8)
        if training and whom in ("training", "both"):
            with suppress(ProcessLookupError):
                os.kill(training, signal.SIGKILL)
        if whom != "training":
            server.kill()
        if training and not wait_for_end(training):
            self.wrong.append(f"{whom}: the training goes on without its server")
        if whom == "training" and port is not None:
            self.check_server(server, port, whom)
        if server.kill(signal.SIGTERM) not in (0, -signal.SIGKILL):
            self.wrong.append(f"{whom}: the server ends with {server.code}")
        runs = [RunFolder(path) for path in (work / "runs").iterdir()]
        saved = [len(folder.saved_steps()) for folder in runs]
        self.counts[f"{whom}: {'no run' if not runs else f'{min(saved[0], 2)} checkpoints or more'}"] += 1
        for folder in runs:
            self.check_run(folder, whom)
        self.check_again(work, whom)
        for folder in runs:
            self.resume(work, folder, whom)
        shutil.rmtree(work)

    def wait(self, server: Server, training: int | None, moment: float, is_training: bool) -> None:
        """So many seconds from now or from when it is training, or until one of them has ended."""
        end = time.monotonic() + moment
        while time.monotonic() < end and not server.ended() and training and Path(f"/proc/{training}").exists():
            if is_training and not any((server.work / "runs").glob("*/config.json")):
                end = time.monotonic() + moment
            time.sleep(0.02)

    def check_run(self, folder: RunFolder, whom: str) -> None:
        """What has its final name is whole."""
        for step in folder.saved_steps():
            if damage := find_damage(folder.checkpoint(step)):
                self.wrong.append(f"{whom}: {damage}")
        if folder.model.exists():
            try:
                read_description(folder.model), read_weights(folder.model)
            except RegardError as error:
                self.wrong.append(f"{whom}: {error}")

    def check_again(self, work: Path, whom: str) -> None:
        again = Server(work)
        port = again.port()
        if port is None:
            self.wrong.append(f"{whom}: the server does not start again: exit code {again.code}")
            return
        self.check_server(again, port, whom)
        if again.kill(signal.SIGTERM) != 0:
            self.wrong.append(f"{whom}: the server ends with {again.code}")

    def check_server(self, server: Server, port: int, whom: str) -> None:
        """It lists the runs, and shows and uses what is there."""
        status, listed = server.ask(port, "GET", "/api/runs")
        names = [one["name"] for one in listed.get("runs", [])]
        answers = [("/api/runs", status), ("models", server.ask(port, "GET", "/api/models")[0])]
        answers += [(name, server.ask(port, "GET", f"/api/runs/{name}/metrics")[0]) for name in names]
        answers += [("translate", server.ask(port, "POST", "/api/translate", {"text": "a b"})[0])]
        probes = [(name, server.ask(port, "GET", f"/api/runs/{name}/probes")[0]) for name in names]
        self.wrong += [f"{whom}: {what} answers {status}" for what, status in answers if status != 200]
        self.wrong += [f"{whom}: probes of {what}: {status}" for what, status in probes if status not in (200, 404)]

    def resume(self, work: Path, folder: RunFolder, whom: str) -> None:
        """The run goes on to its end, and then nothing is left of the killed process."""
        (work / "toy-copy.toml").write_text(TOY.format(task="copy", minutes=SECONDS / 60))
        resume = ("--resume",) if folder.config.exists() else ()
        ended = run(work, ("train", "toy-copy.toml", "--run", str(folder.path), *resume))
        if ended.code != 0:
            self.wrong.append(f"{whom}: resuming ends with {ended.code}: {ended.output[-500:]}")
        self.wrong += [f"{whom}: {path} is left" for path in folder.path.rglob(".*")]
        self.check_run(folder, whom)
        if not folder.model.exists():
            self.wrong.append(f"{whom}: there is no model after resuming")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import_all()
    with tempfile.TemporaryDirectory(prefix="regard-server-kills-") as scratch:
        attack = Attack(Path(scratch), options.seed)
        for number in range(options.kills):
            attack.attack(number)
            print(f"{number + 1} kills, {len(attack.wrong)} faults so far", file=sys.stderr, flush=True)
    print(json.dumps({"kills": options.kills, "wrong": attack.wrong, "counts": dict(sorted(attack.counts.items()))}))
    return bool(attack.wrong)


if __name__ == "__main__":
    sys.exit(main())
