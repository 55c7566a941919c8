"""What the tests of training share: a toy run, someone who listens to it, and `regard` as a process to be killed."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from regard.cli.main import main
from regard.config import RunConfig
from regard.config.recipe import run_from_dict, set_key
from regard.kernels import loader
from regard.kernels.training import TRAINING
from regard.model_folder.atomic import default_cache
from regard.train.launch import start
from regard.train.loop import Trainer
from regard.train.reports import StepReport, ValidationReport
from regard.train.run_folder import RunFolder
from regard.train.tasks import prepare_run

RECIPE = """
[[data.train]]
toy = "copy"
size = 150
[[data.valid]]
toy = "copy"
size = 6
seed = 2
[data.tokenizer]
vocab_size = 300
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
[train]
threads = 1
precision = "float32"
batch_tokens = 256
max_steps = 12
lr = 3e-3
warmup_steps = 4
log_every = 1
validate_every = 4
keep_checkpoints = 3
average_checkpoints = 3
valid_translations = 2
valid_samples = 0
"""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], Path]) -> Path:
    """A cache with the kernels: a process that must compile them prints a message."""
    with suppress(loader.NoKernelsError):
        loader.load(TRAINING)
    return new_cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", autouse=True)
def _own_cache(cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(cache))
        yield


class Heard:
    """A listener that remembers, in order."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.steps: list[StepReport] = []
        self.validations: list[ValidationReport] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def step(self, report: StepReport) -> None:
        self.steps.append(report)
        self.messages.append(f"step {report.step}")

    def validation(self, report: ValidationReport) -> None:
        self.validations.append(report)
        self.messages.append(f"valid {report.step}")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def build_toy_run(*overrides: str) -> RunConfig:
    """A run of 12 steps that takes a tenth of a second, with settings changed as by `--set`."""
    tree = tomllib.loads(RECIPE)
    for override in overrides:
        set_key(tree, override)
    return run_from_dict(tree)


@pytest.fixture(scope="session")
def toy_run() -> Callable[..., RunConfig]:
    return build_toy_run


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Trainer]:
    """A trainer of the toy run in a new folder, before its first step."""

    def make(*overrides: str) -> Trainer:
        run = build_toy_run(*overrides)
        listener = Heard()
        run, prepared = prepare_run(run, default_cache(), listener.message)
        folder = RunFolder(tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        with folder.created(run):
            return Trainer(run, folder, prepared, listener)

    return make


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The toy run as a file, for the command."""
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE)
    return path


class LineByLine(io.RawIOBase):
    """A child's standard output: after each line it waits until the reader has asked for the next."""

    def __init__(self, out: int, asked: int) -> None:
        self.out, self.asked = out, asked

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        content = bytes(content)
        for part in content.splitlines(keepends=True):
            os.write(self.out, part)
            if part.endswith(b"\n"):
                os.read(self.asked, 1)
        return len(content)


class Child:
    """`regard …` as a process of its own. It is forked, so that Python and torch need not start again each time."""

    def __init__(self, errors: Path, arguments: tuple[object, ...], largest_file: int | None) -> None:
        self.errors = errors
        read_out, write_out = os.pipe()
        read_asked, write_asked = os.pipe()
        self.exit_code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_out)
            os.close(write_asked)
            self.become(LineByLine(write_out, read_asked), arguments, largest_file)
        os.close(write_out)
        os.close(read_asked)
        self.out, self.ask = os.fdopen(read_out, encoding="utf-8"), os.fdopen(write_asked, "wb", buffering=0)
        self.first = True

    def become(self, out: LineByLine, arguments: tuple[object, ...], largest_file: int | None) -> NoReturn:
        code = 70
        try:
            handle = os.open(self.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 2)
            sys.stderr = os.fdopen(2, "w", encoding="utf-8")
            sys.stdout = io.TextIOWrapper(out, "utf-8", write_through=True)  # type: ignore[type-var]
            sys.argv = ["regard", *map(str, arguments)]
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def let_go(self) -> None:
        """Let it do what comes after the line that was read last."""
        if not self.first:
            self.ask.write(b".")
        self.first = False

    def line(self) -> str:
        """The next line that it says; empty at the end."""
        self.let_go()
        return self.out.readline()

    def wait_for(self, words: str) -> str:
        while words not in (line := self.line()):
            assert line, f"the command ended before it said {words!r}: {self.errors.read_text()}"
        return line

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> tuple[int, str, str]:
        """Let it run to its end: exit code (negative: the signal that ended it), the rest of its output, errors."""
        self.ask.close()
        rest = self.out.read()
        self.out.close()
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code, rest, self.errors.read_text("utf-8")

    def kill(self) -> int:
        self.send(signal.SIGKILL)
        return self.wait()[0]


@pytest.fixture(scope="session")
def _warm(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], Path]) -> None:
    """Load what torch and others load lazily before the forks, not in each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(new_cache(tmp_path_factory.mktemp("warm-cache"))))
        start(build_toy_run("train.max_steps=1"), RunFolder(tmp_path_factory.mktemp("warm") / "run"), Heard())


@pytest.fixture
def regard(tmp_path: Path, _warm: None) -> Iterator[Callable[..., Child]]:
    """`regard("train", recipe)` as a process; those that still run when the test ends are killed."""
    children: list[Child] = []

    def run(*arguments: object, largest_file: int | None = None) -> Child:
        children.append(Child(tmp_path / f"errors-{len(children)}", arguments, largest_file))
        return children[-1]

    yield run
    for child in children:
        if child.exit_code is None:
            child.kill()


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every file of a folder, by its path in it."""

    def read(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    return read
