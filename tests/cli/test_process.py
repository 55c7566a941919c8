"""The command as a process: closed streams, full disks, Ctrl-C, arguments that are not text, and defects."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.cli import main as cli
from regard.cli.process import Interruption, check_arguments, close_output, write_log
from regard.errors import ConfigError
from regard.extras import EXTRAS

PIPE = subprocess.PIPE
Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A command line as bash runs it, where $REGARD is the command."""

    def run(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "REGARD": f"{sys.executable} -m regard", "OMP_NUM_THREADS": "1"}
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, **options)

    return run


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        ("$REGARD config show tiny.toml <&-", 0, ""),
        ("$REGARD tokenize - --model m <&-", 3, "regard: standard input cannot be read: standard input is closed\n"),
        ("$REGARD --version >&-", 1, "regard: [Errno 9] standard output is closed\n"),
        ("$REGARD --version 2>&-", 0, ""),
        ("$REGARD tokenize - --model m <&- >&- 2>&-", 3, ""),
        ("$REGARD --version >/dev/full", 1, "regard: [Errno 28] No space left on device\n"),
        ("$REGARD params base >/dev/full", 1, "regard: [Errno 28] No space left on device\n"),
        ("$REGARD tokenize none.txt --model m 2>/dev/full", 3, ""),
        ("$REGARD --help | true; exit ${PIPESTATUS[0]}", None, ""),
        ("$REGARD tokenize $'caf\\xe9'", 2, "regard: argument 2 is not UTF-8 (0xe9 is its character 4), and there is"),
        ("$REGARD tokenize . --model m <&-; $REGARD tokenize < . 2>&1 | grep -c Traceback", 1, None),
    ],
)
def test_streams_and_arguments_of_any_kind(
    shell: Shell, tmp_path: Path, line: str, code: int | None, error: str | None
) -> None:
    (tmp_path / "tiny.toml").write_text('[[data.train]]\ntoy = "copy"\n')
    done = shell(line, cwd=tmp_path)
    assert done.returncode in ((0, 1) if code is None else (code,))  # head may have read all before it closes
    if error is not None:
        assert done.stderr.startswith(error)
        assert len(done.stderr.splitlines()) == bool(error)
    assert "Traceback" not in done.stderr


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5), st.binary(max_size=5))
def test_an_argument_is_text_or_refused(text: str, content: bytes) -> None:
    check_arguments(["translate", text])
    argument = os.fsdecode(content)
    if argument.isprintable() or not any("\udc80" <= character <= "\udcff" for character in argument):
        check_arguments([argument])
    else:
        with pytest.raises(ConfigError, match="argument 1 is not UTF-8"):
            check_arguments([argument])


def test_a_file_may_have_any_name(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    with open(path, "w") as file:
        file.write("apple baby\n")
    assert regard("translate", os.fsdecode(path), "--model", reverse_model).out == "baby apple\n"
    said = regard("translate", "apple \udcff", "--model", reverse_model)
    assert (said.code, said.out) == (2, "")


def test_a_defect_is_one_sentence_and_a_log(regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    @click.command("broken")
    def broken() -> None:
        raise ZeroDivisionError("of\ncourse")

    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: broken)
    said = regard("broken", "secret")
    assert said.code == 2, "arguments are still checked"
    said = regard("broken")
    [log] = (tmp_path / "cache" / "logs").iterdir()
    assert (said.code, said.out) == (70, "")
    assert said.err == (
        f"regard: unexpected error, a defect of Regard (ZeroDivisionError: of course); the details are in {log}; "
        "please report it with them\n"
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in log.read_text()
    assert "ZeroDivisionError: of" in log.read_text()


def test_a_log_is_written_elsewhere_if_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    log = write_log(ValueError("a \udcff"))
    assert log is not None
    assert log.parent == tmp_path / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert write_log(ValueError()) is None


INTERRUPTED_TWICE = """
import os, signal, sys
import click
from regard.cli import main as cli

@click.command("slow")
def slow():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    finally:  # the first is being handled
        if TWICE:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()

cli.Commands.get_command = lambda *_: slow
sys.argv = ["regard", "slow"]
cli.main()
"""


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_once_and_twice(twice: bool) -> None:
    script = f"TWICE = {twice}\n{INTERRUPTED_TWICE}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, preexec_fn=allow_interrupts)
    assert (done.returncode, done.stderr.split()) == (130, [] if twice else ["interrupted"])


def allow_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupted_import_is_an_interruption(regard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library makes of Ctrl-C may be any error."""

    @click.command("importing")
    def importing() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: importing)
    assert regard("importing") == (130, "", "interrupted\n")


@pytest.mark.parametrize("size", [2**60, 2**45])
def test_what_no_machine_has_memory_for(regard: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    @click.command("allocating")
    def allocating() -> None:
        torch.empty(size, 300)

    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: allocating)
    said = regard("allocating")
    assert (said.code, said.err.startswith("regard: out of memory")) == (1, True)


def test_a_file_that_ends_too_early_is_no_interruption(
    regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command("reading")
    def reading() -> None:
        raise EOFError("no more")

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: reading)
    said = regard("reading")
    assert (said.code, "EOFError: no more" in said.err) == (70, True)


@pytest.mark.parametrize("known", [False, True])
def test_output_that_cannot_be_written_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], known: bool
) -> None:
    """`known`: it is the stream that Python flushes once more when it ends."""
    full = open("/dev/full", "w")  # noqa: SIM115
    full.write("text")
    monkeypatch.setattr(sys, "stdout", full)
    if known:
        monkeypatch.setattr(sys, "__stdout__", full)
    assert close_output(0) == 1
    assert capfd.readouterr().err == "regard: standard output cannot be written: No space left on device\n"
    if known:
        full.close()  # what it holds goes to nowhere
    else:
        with pytest.raises(OSError, match="No space left"):
            full.close()


def test_a_reader_that_has_gone(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    closed = open(writer, "w")  # noqa: SIM115
    closed.write("text")
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "__stdout__", closed)
    assert [close_output(code) for code in (3, 0)] == [3, 0], "the second has nothing left to write"
    assert capfd.readouterr().err == ""
    closed.close()


def test_a_job_in_the_background_ignores_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interruption = Interruption()
        interruption.listen()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        interruption.close()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_missing_package_is_one_sentence(regard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("importing")
    def importing() -> None:
        import package_of_nobody  # noqa: F401

    monkeypatch.setitem(EXTRAS, "package_of_nobody", "nobody")
    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: importing)
    assert regard("importing") == (
        *(1, ""),
        'regard: this command needs package_of_nobody, which is not installed: pip install "regard[nobody]"\n',
    )
