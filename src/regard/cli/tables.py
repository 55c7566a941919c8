"""Tables and the console of commands, with rich."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLAIN_WIDTH = 200  # wider than any row, for files and pipes


def bare_table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def open_console() -> Console:
    """The terminal, in colour; or plain text of PLAIN_WIDTH for files and pipes."""
    from rich.console import Console

    plain: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}  # names come from anywhere
    return Console(**plain) if sys.stdout.isatty() else Console(**plain, width=PLAIN_WIDTH, color_system=None)


def rendered(console: Console, table: Table) -> str:
    with console.capture() as captured:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
