"""`regard attention`: draw an attention map in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.explain import find_map, head_option, kind_option, layer_option, translation_option
from regard.cli.inputs import load_translator, model_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from regard.inspect.maps import AttentionMap, MapKind

CELL = 3  # characters per column
SHADES = " ·░▒▓█"
VIOLET = "rgb(139,92,246)"  # readable on black and on white


@click.command("attention", short_help="Draw an attention map in the terminal.")
@click.argument("text")
@model_option
@kind_option
@layer_option
@head_option
@translation_option
def command(
    text: str,
    model_path: Path | None,
    kind: MapKind,
    layer: int | None,
    head: int | None,
    translation: str | None,
) -> None:
    """Translate TEXT and draw an attention map: rows are queries, columns are keys.

    \b
    Examples:
      regard attention "我爱你"
      regard attention "Two dogs run." --layer 2 --head 1 --model MODEL
      regard attention "Two dogs run." --kind encoder --model MODEL
    """
    from regard.cli.tables import open_console

    shown = find_map(load_translator(model_path), text, translation, kind, layer, head)
    draw(shown, open_console())


def draw(shown: AttentionMap, console: Console) -> None:
    """Draw the map, in several parts one below the other if the terminal is too narrow for all columns."""
    from rich.cells import cell_len
    from rich.text import Text

    margin = max(map(cell_len, shown.rows)) + 2
    fit = max((console.width - margin) // CELL, 1)
    console.print(Text(shown.title, style="dim"))
    for first in range(0, len(shown.columns), fit):
        columns = slice(first, first + fit)
        lines = [*heading(shown.columns[columns], margin)]
        for row, weights in zip(shown.rows, shown.weights_LM[:, columns].tolist(), strict=True):
            line = Text(" " * (margin - 1 - cell_len(row)) + row + " ")
            for weight in weights:
                line.append_text(cell(weight))
            lines.append(line)
        for line in lines:
            line.rstrip()
            console.print(line, no_wrap=True, crop=False, overflow="ignore")
        console.print()


def heading(names: tuple[str, ...], margin: int) -> list[Text]:
    """The columns' names from top to bottom, each ending just above its column."""
    from rich.cells import cell_len
    from rich.text import Text

    height = max(map(len, names))
    lines = []
    for number in range(height):
        line = " " * margin
        for name in names:
            character = name.rjust(height)[number]
            line += character + " " * (CELL - cell_len(character))
        lines.append(Text(line, style="bold"))
    return lines


def cell(weight: float) -> Text:
    from rich.text import Text

    shade = SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]
    return Text(shade * (CELL - 1) + " ", style=VIOLET)
