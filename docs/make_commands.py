"""Write docs/guide/commands.md from the commands' own help, so that the two cannot differ.

python docs/make_commands.py           write it
python docs/make_commands.py --check   exit with 1 where it is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from regard.cli.main import regard

PAGE = Path(__file__).parent / "guide" / "commands.md"


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """(name, help) of a command and those below it."""
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            assert below is not None
            yield from helps(below, f"{name} {child}")


def page() -> str:
    parts = ["# Commands\n\nMade by `python docs/make_commands.py` from what `--help` prints.\n"]
    parts += [f"## {name}\n\n```text\n{text}\n```\n" for name, text in helps(regard, "regard")]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text("utf-8") == page() else f"{PAGE} is old: run python docs/make_commands.py")
    PAGE.write_text(page(), "utf-8")
