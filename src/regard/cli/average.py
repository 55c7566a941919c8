"""`regard average`: one model out of several checkpoints."""

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
@click.option("--last", type=click.IntRange(min=1), help="Of a run: how many of its last checkpoints. [5]")
@click.option(
    "--weights",
    "stored_as",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    help="How to store them: bfloat16 takes half the space, and rounds to 8 bits of precision. [float32]",
)
@click.option("--card", type=click.Path(path_type=Path), help="A Markdown file: the new model's card. [the last one's]")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, help="The model folder to write.")
def command(folders: tuple[Path, ...], last: int | None, stored_as: StoredAs, card: Path | None, output: Path) -> None:
    """Write the model whose weights are the mean of those in FOLDERS: checkpoints, models, or one run.

    Of a run, the last checkpoints are taken. TokenizerPair, settings and card are the last folder's. Of one folder, the
    mean is itself: so a model is stored again in half the space.

    \b
    Examples:
      regard average runs/reverse -o averaged
      regard average runs/reverse --last 10 -o averaged
      regard average runs/reverse/checkpoints/step-0000[5-9]* -o averaged
      regard average runs/reverse/model --weights bfloat16 -o small    half as large, to be passed on
    """
    from regard.train.average import name_folders, write_average

    if not folders:
        raise ConfigError("average of what? Name a run folder, or several checkpoints or model folders")
    chosen = list(folders)
    if len(folders) == 1 and (folders[0] / "checkpoints").is_dir():
        chosen = last_checkpoints(folders[0], last)
    elif last is not None:
        raise ConfigError("--last goes with one run folder; of checkpoints, name just the ones to average")
    card_text = None if card is None else read_card(card)
    try:
        with spinner("averaging"):
            write_average(chosen, output, stored_as, card_text)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error}") from None
    click.echo(f"{output} is the mean of {name_folders(chosen)}")


def read_card(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--card {path} cannot be read: {error}") from None


def last_checkpoints(run: Path, wanted: int | None) -> list[Path]:
    """The newest checkpoints of a run; where there are fewer than wanted, all of them, and a word about it."""
    from regard.train.run_folder import RunFolder

    folder = RunFolder(run)
    steps = folder.saved_steps()
    if not steps:
        raise RunError(f"{run} has no checkpoint yet; regard train writes one at each validation")
    count = wanted or LAST
    if len(steps) < count:
        click.echo(f"{run} has only {len(steps)} of the {count} checkpoints; averaging those", err=True)
    return [folder.checkpoint(step) for step in steps[-count:]]
