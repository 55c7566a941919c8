"""`regard explore`: serve the explorer page and its API."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import click

from regard.errors import ConfigError

MAX_RUNS = 4  # newest trained models to offer
PAGE_PARAMETERS = {"auto": 20e6, "page": math.inf, "server": 0}  # of the largest model that the page computes


@click.command("explore", short_help="Inspect a model in the browser.")
@click.argument("text", required=False)
@click.option(
    "--model",
    "model_paths",
    multiple=True,
    type=click.Path(path_type=Path),
    show_default="REGARD_MODEL, or the installed models and the newest runs",
    help="Model folder or name; repeatable, to compare models.",
)
@click.option(
    "--compute",
    type=click.Choice(["auto", "page", "server"]),
    default="auto",
    help="Who computes the models. auto: the page computes small models that it supports, the server the others.",
)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), help="Folder with the runs to show.")
@click.option(
    "--host", default="127.0.0.1", help="Address to listen on; the default accepts connections of this machine only."
)
@click.option("--port", type=click.IntRange(0, 65535), default=7777, help="Port; 0 selects a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def command(
    text: str | None,
    model_paths: tuple[Path, ...],
    compute: Literal["auto", "page", "server"],
    runs: Path,
    host: str,
    port: int,
    no_browser: bool,
) -> None:
    """Serve a page that shows all activations of a translation, and lets you change them.

    TEXT is the first sentence to show. No data is sent to other machines. Press Ctrl-C to stop.

    \b
    Examples:
      regard explore --model runs/reverse/model "red green blue"
      regard explore --model runs/first/model --model runs/second/model
      regard explore --no-browser --port 8765
    """
    from regard.model_folder.registry import find_folder

    folders = [find_folder(path) for path in model_paths] or find_models(runs, text)

    import webbrowser

    from regard.inspect.built import HOW_TO_BUILD, PAGE
    from regard.serve.access import is_loopback
    from regard.serve.server import address_of, bind, serve

    if not (PAGE / "index.html").is_file():
        click.echo(f"{HOW_TO_BUILD}\nServing the API only.", err=True)
    bound = bind(host, port)
    address = address_of(bound, host) + (f"#overview?text={quote(text)}" if text else "")

    if not is_loopback(host):
        click.echo(
            f"warning: listening on {host} without authentication; everyone who can reach it can use it", err=True
        )

    def announce() -> None:
        click.echo(f"explorer running at {address} (press Ctrl-C to stop)")
        if not no_browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # the server may have handled it
        serve(bound, host, folders, runs, announce, PAGE_PARAMETERS[compute])
    click.echo("explorer stopped")


def find_models(runs: Path | None, text: str | None) -> list[Path]:
    """REGARD_MODEL, or the installed models and those of the newest of these runs.

    The page starts with the first: an installed model for the language of the text, by default Chinese.
    """
    if os.environ.get("REGARD_MODEL"):
        return [Path(os.environ["REGARD_MODEL"])]
    from regard.model_folder.registry import describe, installed_models
    from regard.text.language import detect_language

    language = detect_language(text or "").language or "zh"
    models = [model for model in installed_models() if model.translates(None, None)]
    installed = [model.folder for model in sorted(models, key=lambda model: not model.translates(language, None))]
    finished = runs.glob("*/model/SHA256SUMS") if runs else ()
    made = sorted(finished, key=lambda path: -path.stat().st_mtime)
    found = [path.parent for path in made if describe(path.parent).translates(None, None)]
    if not installed and not found:
        raise ConfigError(
            f"no model found: none is installed{f' and {runs} has none' if runs else ''}. Give a model folder with "
            "--model or REGARD_MODEL, or train one: regard train recipes/reverse.toml"
        )
    return installed + found[:MAX_RUNS]
