"""`regard average`: average the weights of several checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.inputs import spinner
from regard.errors import ConfigError, RunError

if TYPE_CHECKING:
    from regard.model_folder.weights import StoredAs

LAST = 5  # as the paper did for base, section 6.1


@click.command("average", short_help="Average the weights of checkpoints.")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--last", type=click.IntRange(min=1), show_default="5", help="For a run: number of last checkpoints.")
@click.option(
    "--weights",
    "stored_as",
    type=click.Choice(["float32", "bfloat16", "int8"]),
    default="float32",
    help="Number format of the stored weights; bfloat16 takes half the space, int8 a quarter.",
)
@click.option(
    "--card",
    type=click.Path(path_type=Path),
    show_default="that of the last folder",
    help="Model card (Markdown file).",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, help="Model folder to write.")
def command(folders: tuple[Path, ...], last: int | None, stored_as: StoredAs, card: Path | None, output: Path) -> None:
    """Average the weights of FOLDERS (checkpoints or model folders, or one run) and write a new model folder.

    For a run, the last checkpoints are averaged. Tokenizer, settings and card are those of the last folder. With a
    single model folder and --weights, the model is converted: bfloat16 takes half the space of float32, int8 a quarter.

    \b
    Examples:
      regard average runs/reverse -o averaged
      regard average runs/reverse --last 10 -o averaged
      regard average runs/reverse/checkpoints/step-0000[5-9]* -o averaged
      regard average runs/reverse/model --weights int8 -o small
    """
    from regard.train.average import name_folders, write_average

    if not folders:
        raise ConfigError("nothing to average: give a run folder, or several checkpoints or model folders")
    chosen = list(folders)
    if len(folders) == 1 and (folders[0] / "checkpoints").is_dir():
        chosen = last_checkpoints(folders[0], last)
    elif last is not None:
        raise ConfigError("--last needs one run folder; otherwise give exactly the checkpoints to average")
    card_text = None if card is None else read_card(card)
    try:
        with spinner("averaging"):
            write_average(chosen, output, stored_as, card_text)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error}") from None
    click.echo(f"wrote {output}: mean of {name_folders(chosen)}")


def read_card(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--card {path} cannot be read: {error}") from None


def last_checkpoints(run: Path, wanted: int | None) -> list[Path]:
    """The last checkpoints of a run; all of them, with a message, if there are fewer than wanted."""
    from regard.train.run_folder import RunFolder

    folder = RunFolder(run)
    steps = folder.saved_steps()
    if not steps:
        raise RunError(f"{run} has no checkpoint yet; regard train writes one at each validation")
    count = wanted or LAST
    if len(steps) < count:
        click.echo(f"{run} has only {len(steps)} checkpoints, not {count}; averaging all of them", err=True)
    return [folder.checkpoint(step) for step in steps[-count:]]
