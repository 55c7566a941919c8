"""The display of downloads on standard error: a bar per file on a terminal, a line per file elsewhere."""

from __future__ import annotations

from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn


class DownloadBars:
    """A context manager; `update` gets the file, the bytes that have arrived, and the bytes of the whole file."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> DownloadBars:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.progress.stop()

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def update(self, file: str, count: int, size: int) -> None:
        if file not in self.tasks:
            self.tasks[file] = self.progress.add_task(file, total=size)
            if not self.console.is_terminal:
                self.say(f"{file}: {size:,} bytes")
        self.progress.update(self.tasks[file], completed=count)
