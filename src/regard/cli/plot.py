"""`regard plot`: learning curves of runs, from their metrics."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from regard.cli.outputs import write_output
from regard.errors import ConfigError, RunError
from regard.extras import require
from regard.inspect.figure import font_family

SUFFIXES = (".png", ".svg")
PIXELS_PER_INCH = 150


@dataclass(frozen=True)
class Curve:
    """A metric and the style of its line."""

    kind: str  # of the rows: step or validation
    key: str
    label: str
    look: dict[str, Any]


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str
    curves: tuple[Curve, ...]
    numbers: str = "{x:g}"  # format of the tick labels of the y axis
    from_zero: bool = False


THIN: dict[str, Any] = {"linewidth": 1.2}
FAINT = {"linewidth": 1.0, "alpha": 0.55}
DOTTED = {"linewidth": 1.8, "marker": "o", "markersize": 3.5}
DASHED = {"linewidth": 1.4, "linestyle": "--", "marker": "s", "markersize": 3}

PANELS = (
    Panel(
        "Loss",
        "−log p per target token",
        (Curve("step", "nll", "training", FAINT), Curve("validation", "nll", "validation", DOTTED)),
    ),
    Panel(
        "Translation quality",
        "score on validation sentences",
        (Curve("validation", "bleu", "BLEU", DOTTED), Curve("validation", "chrf", "chrF", DASHED)),
    ),
    Panel("Learning rate", "learning rate", (Curve("step", "lr", "learning rate", THIN),)),
    Panel(
        "Speed",
        "target tokens per second",
        (Curve("step", "tokens_per_second", "tokens/s", THIN),),
        numbers="{x:,.0f}",
        from_zero=True,
    ),
)


@click.command("plot", short_help="Plot the learning curves of a run.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    show_default="curves.png in the first RUN",
    help=".png or .svg file.",
)
def command(runs: tuple[Path, ...], output: Path | None) -> None:
    """Plot loss, BLEU and chrF, learning rate and speed of each RUN against the steps.

    Several runs are drawn in one figure, one colour per run. A run may still be training.

    \b
    Examples:
      regard plot runs/reverse
      regard plot runs/baseline runs/no-dropout -o compared.svg
    """
    output = output or runs[0] / "curves.png"
    if output.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"-o {output}: the file name must end in .png or .svg")
    metrics = {label: read_rows(run) for label, run in zip(name_runs(runs), runs, strict=True)}
    picture = draw(metrics, output.suffix.lower().removeprefix("."))
    write_output(picture, output)
    click.echo(f"wrote {output}")


def read_rows(run: Path) -> list[dict[str, Any]]:
    from regard.train.run_folder import RunFolder

    if not run.is_dir():
        raise RunError(f"run folder not found: {run} (regard train writes runs to runs/)")
    rows = RunFolder(run).read_metrics()
    if not rows:
        raise RunError(
            f"{run} has no metrics yet: {RunFolder(run).metrics} is "
            f"{'empty' if RunFolder(run).metrics.exists() else 'missing'}. The first metrics are written after "
            "train.log_every steps; check that this is a run folder"
        )
    return rows


def name_runs(runs: Sequence[Path]) -> list[str]:
    """The folders' names where they tell the runs apart, else their paths."""
    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError("a run is given twice; give each run once")
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def draw(metrics: dict[str, list[dict[str, Any]]], kind: str) -> bytes:
    """The picture as a file's contents."""
    require("matplotlib", "plotting")
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # Text in an SVG is stored as text, so that it can be searched, copied, and rendered with local fonts.
    style: dict[Any, Any] = {"font.family": font_family(), "font.size": 10, "svg.fonttype": "none"}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # characters in a run's name that no font has
        figure = Figure(figsize=(11, 7), dpi=PIXELS_PER_INCH, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.08))
        colours = matplotlib.color_sequences["tab10"]
        for axes, panel in zip(figure.subplots(2, 2, sharex=True).flat, PANELS, strict=True):
            draw_panel(axes, panel, metrics, colours)
        add_run_names(figure, list(metrics), colours)
        written = io.BytesIO()
        figure.savefig(written, format=kind, facecolor="white")
    return written.getvalue()


def draw_panel(axes: Any, panel: Panel, metrics: dict[str, list[dict[str, Any]]], colours: Sequence[Any]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    drawn = []
    for curve in panel.curves:
        points = [points_of(curve, rows) for rows in metrics.values()]
        for number, (steps, values) in enumerate(points):
            look = curve.look if len(steps) > 1 else {"marker": "o", **curve.look}  # a single point has no line
            axes.plot(steps, values, color=colours[number % len(colours)], **look)
        if any(steps for steps, _ in points):
            drawn.append(curve)
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel("step")
    axes.tick_params(labelbottom=True)  # on every panel, although they share the x axis
    axes.set_ylabel(panel.unit)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter(StrMethodFormatter(panel.numbers))
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if not drawn:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="0.5")
    elif len(panel.curves) > 1:
        # Grey: the colour identifies the run, the line style the metric.
        axes.legend(
            [Line2D([], [], color="0.3", **curve.look) for curve in drawn], [c.label for c in drawn], frameon=False
        )


def points_of(curve: Curve, rows: Sequence[dict[str, Any]]) -> tuple[list[int], list[float]]:
    """Steps and values of a metric; a validation may have no BLEU."""
    found = [row for row in rows if row["kind"] == curve.kind and row.get(curve.key) is not None]
    return [row["step"] for row in found], [row[curve.key] for row in found]


def add_run_names(figure: Any, names: list[str], colours: Sequence[Any]) -> None:
    """The name of the run as the title, or a legend of several; $ in a name is not mathtext."""
    from matplotlib.lines import Line2D

    if len(names) == 1:
        figure.suptitle(names[0], fontsize=13, fontweight="bold", parse_math=False)
        return
    lines = [Line2D([], [], linewidth=3, color=colours[number % len(colours)]) for number in range(len(names))]
    legend = figure.legend(lines, names, loc="outside upper center", ncols=min(len(names), 4), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
