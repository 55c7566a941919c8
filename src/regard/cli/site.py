"""`regard site`: the explorer as a static site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.inputs import weights_option
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.model_folder.weights import StoredAs


@click.command("site", short_help="Write the explorer as a static site.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--model",
    "model_paths",
    multiple=True,
    type=click.Path(path_type=Path),
    show_default="REGARD_MODEL, or the installed models that translate",
    help="Model folder or name; repeatable.",
)
@weights_option
def command(folder: Path, model_paths: tuple[Path, ...], weights: StoredAs | None) -> None:
    """Write the explorer, its lessons and models into FOLDER, for any web host.

    The page computes the models itself: they are files that it fetches when they are first used. An earlier site in
    FOLDER is replaced.

    \b
    Examples:
      regard site public
      regard site public --model zh-en --model runs/first/model
      python -m http.server --bind 127.0.0.1 --directory public
    """
    from regard.cli.explore import find_models
    from regard.inspect.explorer import Explorer
    from regard.inspect.live_page import files_of_site, write_site
    from regard.inspect.model_summary import name_of
    from regard.inspect.packed_model import refusal
    from regard.model_folder.registry import find_folder
    from regard.pipelines.model_translator import ModelTranslator

    files_of_site(folder)  # raises before any work is done
    explorers: dict[str, Explorer] = {}
    for path in [find_folder(path) for path in model_paths] or find_models(None, None):
        translator = ModelTranslator(path)
        if reason := refusal(translator):
            raise ConfigError(f"{path}: {reason}; regard explore shows such models")
        name = name_of(translator.folder)
        if name in explorers:
            raise ConfigError(f"two models are named {name}; give folders of different names")
        explorers[name] = Explorer(translator)
    for part in write_site(explorers, folder, weights):
        stored = f", {part.stored_as}" if part.stored_as else ""
        click.echo(f"wrote {folder / part.name}: {part.size / 1e6:.2f} MB{stored}")
