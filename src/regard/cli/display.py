"""Progress display of a training run: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TextIO

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from regard.train.reports import Balance, Buckets, Sample, Spans, StepReport, ValidationReport

BARS = "▁▂▃▄▅▆▇█"


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: Sequence[float], width: int = 48) -> str:
    """All values as a row of at most `width` bars, each the mean of a range; NaN and infinity have no bar."""
    cuts = [len(values) * i // width for i in range(width + 1)] if len(values) > width else range(len(values) + 1)
    means = [sum(values[start:stop]) / (stop - start) for start, stop in pairwise(cuts)]
    finite = [mean for mean in means if math.isfinite(mean)] or [0.0]
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(BARS[round((m - low) / span * (len(BARS) - 1))] if math.isfinite(m) else " " for m in means)


def balance_text(balance: Balance) -> str:
    """The load balance of the experts."""
    idle = f", {balance.idle} idle" if balance.idle else ""
    return f"entropy {balance.entropy:.2f}, maximum load {balance.busiest:.1f} × mean{idle}"


def spans_text(spans: Spans) -> str:
    """How far back the heads look."""
    return f"mean {spans.mean:.0f} tokens, longest {spans.longest:.0f}"


def buckets_text(buckets: Buckets) -> str:
    """How the tokens are divided, and what is seen of a text."""
    return f"mean {buckets.mean:.1f} tokens, largest {buckets.largest:,}, {buckets.seen:.1%} of pairs seen"


class PlainDisplay:
    """A line per report."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def message(self, text: str) -> None:
        try:
            print(text, file=self.out, flush=True)
        except OSError:  # the reader of the pipe, such as `tee`, has ended; training continues
            sys.stdout = self.out = io.StringIO()

    def step(self, r: StepReport) -> None:
        self.message(
            f"step {r.step:>7,}  epoch {r.epoch:>3}  loss {r.loss:.3f}  ppl {r.perplexity:.2f}  lr {r.lr:.2e}  "
            f"{r.tokens_per_second:,.0f} tokens/s  {clock(r.seconds)} elapsed  {clock(r.seconds_left)} left"
            + ("" if r.balance is None else f"  experts: {balance_text(r.balance)}")
            + ("" if r.spans is None else f"  spans: {spans_text(r.spans)}")
            + ("" if r.buckets is None else f"  buckets: {buckets_text(r.buckets)}")
        )

    def validation(self, r: ValidationReport) -> None:
        scores = "" if r.bleu is None else f"  BLEU {r.bleu:.2f}  chrF {r.chrf:.2f}"
        scores += "" if r.accuracy is None else f"  accuracy {r.accuracy:.2%}"
        best = "  (best)" if r.best else ""
        self.message(
            f"validation at step {r.step:,}  loss {r.nll:.4f}  ppl {r.perplexity:.2f}{scores}  {r.seconds:.1f} s{best}"
        )
        for sample in r.samples:
            rows = (("    ", sample.source), ("  → ", sample.output), ("  = ", sample.reference))
            shown = [mark + text for mark, text in rows if text or (mark == "  → " and sample.source)]
            self.message("\n".join(shown))


class LiveDisplay:
    """A panel with the metrics, the loss curve, and the last validation with its samples; messages scroll above it."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.title = title
        self.console = console or Console()
        self.losses: list[float] = []
        self.last_step: StepReport | None = None
        self.last_validation: ValidationReport | None = None
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.draw)

    def __enter__(self) -> LiveDisplay:
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self.live.stop()

    def message(self, text: str) -> None:
        with suppress(OSError):
            self.console.print(Text(text, style="dim"))

    def step(self, r: StepReport) -> None:
        self.last_step = r
        self.losses.append(r.loss)

    def validation(self, r: ValidationReport) -> None:
        self.last_validation = r

    def draw(self) -> Panel:
        # Text, never str: rich would interpret [brackets] in a sentence or a path as markup.
        step, validation = self.last_step, self.last_validation
        parts: list[RenderableType] = [Text("preparing …", style="dim")] if step is None else self.progress(step)
        if validation is not None:
            parts += ["", self.scores(validation)]
            parts += [part for sample in validation.samples for part in ("", self.sample(sample))]
        return Panel(Group(*parts), title=Text(self.title), title_align="left", border_style="blue")

    def progress(self, r: StepReport) -> list[RenderableType]:
        cells = {
            "step": f"{r.step:,}",
            "epoch": str(r.epoch),
            "loss": f"{r.loss:.3f}",
            "perplexity": f"{r.perplexity:.2f}",
            "learning rate": f"{r.lr:.2e}",
            "tokens/s": f"{r.tokens_per_second:,.0f}",
            "time": clock(r.seconds),
            "time left": clock(r.seconds_left),
            **({} if r.balance is None else {"experts": balance_text(r.balance)}),
            **({} if r.spans is None else {"spans": spans_text(r.spans)}),
            **({} if r.buckets is None else {"buckets": buckets_text(r.buckets)}),
        }
        numbers = [Text.assemble((f"{name}\n", "dim"), (value, "bold")) for name, value in cells.items()]
        curve = sparkline(self.losses, max(8, min(60, self.console.width - 32)))
        ends = f"{self.losses[0]:.2f} ", curve, f" {self.losses[-1]:.2f}"
        line = Text.assemble(("loss  ", "dim"), ends[0], (ends[1], "magenta"), ends[2], no_wrap=True)
        return [Columns(numbers, padding=(0, 3)), "", line]

    def scores(self, r: ValidationReport) -> Text:
        line = Text.assemble(("validation at step ", "dim"), (f"{r.step:,}", "bold"))
        for name, value in r.scores().items():
            shown = f"{value:.2%}" if name == "accuracy" else f"{value:.2f}"
            line.append_text(Text.assemble((f"  {name} ", "dim"), (shown, "bold")))
        return line.append("  (best)", "green") if r.best else line

    def sample(self, sample: Sample) -> Table:
        """Source, translation and reference in rows, for comparison."""
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(overflow="fold")  # Chinese has no spaces to break a line at
        rows = (
            ("source", sample.source, "cyan"),
            ("translation", sample.output, "bold"),
            ("reference", sample.reference, ""),
        )
        for name, text, style in rows:
            if not text and name != "translation":
                continue
            table.add_row(Text(name, style="dim"), Text(text, style=style))
        return table


def choose_display(title: str) -> PlainDisplay | LiveDisplay:
    able = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return LiveDisplay(title) if able else PlainDisplay()
