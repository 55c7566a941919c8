"""Draw docs/live-display.svg: the live display of a training, from the reports of a real run.

python docs/make_picture.py runs/multi30k-en-de
"""

from __future__ import annotations

import dataclasses
import io
import re
import sys
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from regard.cli.display import LiveDisplay
from regard.train.reports import Sample, StepReport, ValidationReport
from regard.train.run_folder import RunFolder

PICTURE = Path(__file__).parent / "live-display.svg"
T = TypeVar("T")


def report(kind: type[T], row: dict[str, Any]) -> T:
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {name: value for name, value in row.items() if name in names}
    if "samples" in values:
        values["samples"] = tuple(Sample(**sample) for sample in values["samples"])
    return kind(**values)


def draw(run: Path) -> str:
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
    display = LiveDisplay(f"{run.name} → {run}", console)
    for row in RunFolder(run).read_metrics():
        if row["kind"] == "step":
            display.step(report(StepReport, row))
        else:
            display.validation(report(ValidationReport, row))
    console.print(display.draw())
    svg = console.export_svg(title=f"regard train recipes/{run.name}.toml")
    # The picture must not fetch a font from the network; every system has a fixed-width one.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "monospace")


if __name__ == "__main__":
    PICTURE.write_text(draw(Path(sys.argv[1])), "utf-8")
