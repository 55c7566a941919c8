"""`regard pattern`: which tokens an attention sees, at any length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.outputs import check_output, write_output
from regard.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from regard.config import AttentionRole
    from regard.inspect.attention_pattern import AttentionPattern, Place

SHADES = "·░▒▓█"
CELLS_IN_TERMINAL = 36


@click.command("pattern", short_help="Draw which tokens an attention sees.")
@click.argument("what", type=click.Path())  # for shell completion
@click.option("--length", type=click.IntRange(min=1), default=512, help="Tokens of the text.")
@click.option("--layer", type=int, default=0, help="Layer, from 0.")
@click.option("--head", type=int, default=0, help="Head, from 0.")
@click.option(
    "--role",
    type=click.Choice(["encoder", "decoder", "cross"]),
    show_default="the model's only one, or the encoder's",
    help="Self-attention of the encoder or decoder, or cross-attention.",
)
@click.option("--svg", type=click.Path(path_type=Path), help="Figure to write instead, with all marks.")
def command(what: str, length: int, layer: int, head: int, role: AttentionRole | None, svg: Path | None) -> None:
    """Draw which keys the queries of one head see in a text of any length.

    WHAT is a preset, a recipe or a model folder. Rows are queries, columns are keys; a long text is reduced to cells.
    The figure marks blocks, global tokens, learned spans and the buckets of LSH attention. Spans are those of a model
    folder's weights, in a recipe the initial ones.

    \b
    Examples:
      regard pattern recipes/gpt-hongloumeng.toml --length 4096
      regard pattern runs/gpt-hongloumeng/model --length 4096 --layer 3 --svg pattern.svg
    """
    if svg is not None:
        if svg.suffix.lower() != ".svg":
            raise ConfigError(f"{svg}: the file name must end in .svg")
        check_output(svg)
    from regard.cli.params import find_model
    from regard.inspect.attention_pattern import CELLS, attention_pattern, find_place

    model, _ = find_model(what, None)
    place = find_place(model, role)
    cells = CELLS if svg else CELLS_IN_TERMINAL
    pattern = attention_pattern(place, length, layer, head, cells, learned_spans(what, place, layer))
    if svg is None:
        draw(pattern)
        return
    from regard.inspect.pattern_figure import draw_patterns

    write_output(draw_patterns([pattern]), svg)
    click.echo(f"wrote {svg}: {pattern.title}")


def learned_spans(what: str, place: Place, layer: int) -> np.ndarray | None:
    """The parameter of the spans in the layer of a model folder."""
    from regard.config import AdaptiveSpanConfig
    from regard.model_folder.folder import WEIGHTS
    from regard.model_folder.weights import read_weights

    if not Path(what).is_dir() or not isinstance(place.config, AdaptiveSpanConfig):
        return None
    return read_weights(Path(what), WEIGHTS).get(place.name.format(layer) + ".span_H")


def draw(pattern: AttentionPattern) -> None:
    from regard.inspect.pattern_figure import caption

    click.echo(f"{pattern.title}\n{caption(pattern)}\n")
    for shares in pattern.share_CC.tolist():
        click.echo("".join(2 * shade(share) for share in shares).rstrip())


def shade(share: float) -> str:
    return " " if share == 0 else SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
