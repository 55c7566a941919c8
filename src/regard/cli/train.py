"""`regard train`: train a model by a recipe."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command("train", short_help="Train a model.")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting of the recipe; repeatable."
)
@click.option("--run", "run_path", type=click.Path(path_type=Path), show_default="runs/RECIPE", help="Run folder.")
@click.option("--resume", is_flag=True, help="Resume from the last checkpoint of the run.")
@click.option(
    "--allow-different-arithmetic",
    is_flag=True,
    help="Resume even where kernels, precision, threads, PyTorch or CPU are not those of the checkpoint.",
)
def command(
    recipe: Path, overrides: tuple[str, ...], run_path: Path | None, resume: bool, allow_different_arithmetic: bool
) -> None:
    """Train the model that RECIPE describes, a TOML file.

    The tokenizer is trained and the data is prepared first, unless they are in the cache. Ctrl-C finishes the step
    and saves a checkpoint, from which --resume continues exactly. It refuses a checkpoint that was computed with other
    kernels, threads or versions, since the run would end elsewhere; --allow-different-arithmetic goes on nevertheless.

    \b
    Examples:
      regard train recipes/reverse.toml
      regard train recipes/multi30k-en-de.toml --set train.max_minutes=30
      regard train recipes/multi30k-en-de.toml --resume
    """
    from regard.cli.display import choose_display
    from regard.config.recipe import load_recipe
    from regard.train import launch
    from regard.train.run_folder import RunFolder

    if allow_different_arithmetic and not resume:
        raise click.UsageError("--allow-different-arithmetic is for --resume; a new run has nothing to differ from")
    run = load_recipe(recipe, overrides)
    folder = RunFolder(run_path or Path("runs") / recipe.stem)
    with choose_display(f"{recipe.stem} → {folder.path}") as display:
        if resume:
            outcome = launch.resume(run, folder, display, allow_different_arithmetic)
        else:
            outcome = launch.start(run, folder, display)
    click.echo(f"{outcome.ending} at step {outcome.step:,}; the run is in {folder.path}")
    if outcome.model is None:
        changes = [word for override in overrides for word in ("--set", override)]
        location = ["--run", str(run_path)] if run_path else []
        click.echo(f"resume with: {shlex.join(['regard', 'train', str(recipe), *changes, *location, '--resume'])}")
        raise click.exceptions.Exit(130)
    click.echo(f"try it: {run.model.use.command} --model {outcome.model}")
