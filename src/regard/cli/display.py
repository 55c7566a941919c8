"""The live display of a training: a panel in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from collections import deque
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from regard.train.reports import StepReport, ValidationReport

BARS = "▁▂▃▄▅▆▇█"


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: list[float], width: int = 48) -> str:
    """The values as a row of bars, the latest on the right."""
    values = values[-width:]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(BARS[int((value - low) / span * (len(BARS) - 1))] for value in values)


class PlainDisplay:
    """A line per report."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def message(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def step(self, r: StepReport) -> None:
        self.message(
            f"step {r.step:>7,}  epoch {r.epoch:>3}  loss {r.loss:.3f}  ppl {r.perplexity:.2f}  lr {r.lr:.2e}  "
            f"{r.tokens_per_second:,.0f} tokens/s  {clock(r.seconds)} gone  {clock(r.seconds_left)} left"
        )

    def validation(self, r: ValidationReport) -> None:
        scores = "" if r.bleu is None else f"  BLEU {r.bleu:.2f}  chrF {r.chrf:.2f}"
        best = "  (best so far)" if r.best else ""
        self.message(
            f"valid, step {r.step:,}  loss {r.nll:.4f}  ppl {r.perplexity:.2f}{scores}  {r.seconds:.1f} s{best}"
        )
        for sample in r.samples:
            self.message(f"    {sample.source}\n  → {sample.output}\n  = {sample.reference}")


class LiveDisplay:
    """One panel that is redrawn: the numbers, the curve of the loss, the last validation with its samples."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.title = title
        self.console = console or Console()
        self.losses: deque[float] = deque(maxlen=1000)
        self.messages: deque[str] = deque(maxlen=6)
        self.last_step: StepReport | None = None
        self.last_validation: ValidationReport | None = None
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.draw)

    def __enter__(self) -> LiveDisplay:
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def message(self, text: str) -> None:
        self.messages.extend(text.splitlines())

    def step(self, r: StepReport) -> None:
        self.last_step = r
        self.losses.append(r.loss)

    def validation(self, r: ValidationReport) -> None:
        self.last_validation = r

    def draw(self) -> Panel:
        parts: list[Table | Text] = []
        if self.last_step is None:
            parts += [Text(line, style="dim") for line in self.messages]
        else:
            parts += [self.numbers(self.last_step), Text("loss  " + sparkline(list(self.losses)), style="magenta")]
            parts += [Text(line, style="yellow") for line in list(self.messages)[-2:]]
        if self.last_validation is not None:
            parts.append(self.samples(self.last_validation))
        return Panel(Group(*parts), title=self.title, title_align="left", border_style="blue")

    def numbers(self, r: StepReport) -> Table:
        table = Table.grid(padding=(0, 3))
        cells = {
            "step": f"{r.step:,}",
            "epoch": str(r.epoch),
            "loss": f"{r.loss:.3f}",
            "perplexity": f"{r.perplexity:.2f}",
            "learning rate": f"{r.lr:.2e}",
            "tokens/s": f"{r.tokens_per_second:,.0f}",
            "gone": clock(r.seconds),
            "left": clock(r.seconds_left),
        }
        table.add_row(*[Text(name, style="dim") for name in cells])
        table.add_row(*[Text(value, style="bold") for value in cells.values()])
        return table

    def samples(self, r: ValidationReport) -> Table:
        scores = "  ".join(f"{name} {value:.2f}" for name, value in r.scores().items())
        table = Table(title=f"validation at step {r.step:,}: {scores}", title_justify="left", expand=True)
        table.add_column("source", style="cyan", ratio=1)
        table.add_column("translation", style="bold", ratio=1)
        table.add_column("reference", style="dim", ratio=1)
        for sample in r.samples:
            table.add_row(Text(sample.source), Text(sample.output), Text(sample.reference))
        return table


def choose_display(title: str) -> PlainDisplay | LiveDisplay:
    return LiveDisplay(title) if sys.stdout.isatty() else PlainDisplay()
