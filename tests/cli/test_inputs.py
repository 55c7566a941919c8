"""What commands share: a text or a file, and signs of life on a terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from regard.cli import inputs
from regard.cli.inputs import complete_file, progress_bar, read_lines, spinner
from regard.cli.translate import command
from regard.errors import ConfigError, DataError

PATIENCE = 60.0  # seconds that a loaded machine may need to draw


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a folder of data in it."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "test.de").write_text("eins\nzwei\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["d/tst.de", "./vaild", "d/vaild", "vaild.en", "vaild.zh", "test.src", "hyp.ref", "x.tgt"]
)
def test_a_mistyped_file_is_no_text(place: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        read_lines(name)
    assert str(caught.value).startswith(f"file not found: {name} (if this is text, pass it on standard input")
    with pytest.raises(DataError, match=f"file not found: {place}/none"):
        read_lines(str(place / "none"))


@pytest.mark.parametrize("name", ["d/", "./d"])
def test_a_folder_is_no_text(place: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        read_lines(name)
    assert str(caught.value) == f"{name} is a folder; give a file"


@pytest.mark.parametrize(
    "text",
    [
        *("d", "example.de", "https://example.com/x", "and/or", "1/2", "/", "./", "d/ x", "他/她", "a/b/c"),
        *("a\0b/c", "x" * 5000 + "/y"),
    ],
)
def test_what_looks_like_a_path_may_be_a_text(place: Path, text: str) -> None:
    assert len(read_lines(text)) == 1


def test_a_file_is_read(place: Path) -> None:
    assert read_lines("d/test.de") == ["eins", "zwei"]


class Terminal:
    """A terminal, from the side of whoever looks at it; within the block, standard error goes there."""

    def __init__(self) -> None:
        self.main, self.handle = os.openpty()
        self.file = os.fdopen(self.handle, "w", encoding="utf-8")

    def __enter__(self) -> Terminal:
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("TERM", "xterm")
        self.patch.setattr(sys, "stderr", self.file)
        return self

    def __exit__(self, *error: object) -> None:
        self.patch.undo()
        self.file.close()
        os.close(self.main)

    def wait_for(self, words: str) -> str:
        """All that is drawn until these words are."""
        seen = b""
        while words.encode() not in seen:
            assert select.select([self.main], [], [], PATIENCE)[0], f"nothing was drawn but {seen!r}"
            seen += os.read(self.main, 1000)
        return seen.decode(errors="replace")


def test_long_work_shows_a_spinner() -> None:
    with Terminal() as terminal, spinner("reading a [/b] file"):
        terminal.wait_for("reading a [/b] file")


def test_one_long_line_shows_a_spinner() -> None:
    with Terminal() as terminal, progress_bar("translating", 1) as done:
        terminal.wait_for("translating")
        done(1)


def test_short_work_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "SPINNER_DELAY", 10 * PATIENCE)  # however slow the machine is
    with Terminal() as terminal:
        with spinner("unseen"), progress_bar("unseen", 1):
            pass
        print("the end", file=sys.stderr, flush=True)
        assert terminal.wait_for("the end").strip() == "the end"


def test_tokenizing_many_lines_shows_how_far_it_is(regard: Any, make_model: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat\na dog\nthe mat\n")
    model = make_model(tmp_path / "m")
    with Terminal() as terminal:
        assert regard("tokenize", tmp_path / "text", "--model", model).code == 0
        terminal.wait_for("encoding")


def test_checking_a_large_corpus_shows_a_spinner(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text('[[data.train]]\ntoy = "copy"\nsize = 1_000_000_000\n')
    command = [sys.executable, "-m", "regard", "config", "check", str(tmp_path / "large.toml")]
    with (
        Terminal() as terminal,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal.handle) as process,
    ):
        try:
            terminal.wait_for("reading toy copy")
        finally:
            process.kill()


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, terminal = os.openpty()
    with open(terminal) as stdin, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        with pytest.raises(ConfigError, match="no input: give a text in quotes, a file, or - for standard input"):
            read_lines(None)
    os.close(reader)


def test_texts_are_completed_to_files() -> None:
    [item] = complete_file(click.Context(command), command.params[0], "da")
    assert (item.value, item.type) == ("da", "file")
