"""Help comes at once: no command imports anything heavy to say what it does, and every command says it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from regard.cli.main import COMMANDS, regard

HEAVY = {"torch", "numpy", "sentencepiece", "rich", "sacrebleu", "matplotlib", "safetensors", "starlette", "uvicorn"}


def every_command(
    group: click.Group = regard, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command, and each command of a command, with the words that call it."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


ALL = dict(every_command())
EACH = pytest.mark.parametrize("words", ALL, ids=" ".join)


@pytest.mark.parametrize("words", [(), *ALL], ids=lambda words: " ".join(words) or "regard")
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "regard", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert {"click", "regard"} <= imported
    assert not imported & HEAVY
    assert done.stdout.startswith("Usage: ")


def test_translating_imports_nothing_that_it_does_not_need(babble: Path) -> None:
    """torch is for training and traces, OpenCC for traditional characters, and rich for tables."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "regard", "translate", "我爱你", "--no-guards"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"numpy", "sentencepiece", "regard.pipelines.model_translator"} <= imported
    unwanted = {"torch", "sacrebleu", "rich", "matplotlib", "starlette", "uvicorn", "opencc", "zstandard"}
    assert imported & unwanted == set()
    assert not {name for name in imported if name.startswith(("regard.inspect.", "regard.serve.", "regard.train."))}


def test_the_list_of_commands_is_what_there_is() -> None:
    assert [words[0] for words in ALL if len(words) == 1] == list(COMMANDS)
    assert all(command.name == words[-1] for words, command in ALL.items())


def test_the_main_help_lists_every_command() -> None:
    ctx = click.Context(regard)
    listed = regard.get_help(ctx)
    assert all(f"\n  {name} " in listed for name in COMMANDS)


@EACH
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    command = ALL[words]
    assert command.help
    assert "\b" in command.help
    assert "Examples:\n" in command.help
    assert f"regard {' '.join(words)}" in command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{option.name} has no help"
