"""`regard explore`: a page that shows everything a model does with a sentence."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import click

from regard.errors import ConfigError

MOST_FOUND = 4


@click.command("explore", short_help="See everything a model does with a sentence, in the browser.")
@click.argument("text", required=False)
@click.option(
    "--model",
    "model_paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A model folder; may be given several times, to compare. [REGARD_MODEL, or the installed and the newest]",
)
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), help="The folder of trainings to show. [runs]"
)
@click.option("--host", default="127.0.0.1", help="The address to serve at. [127.0.0.1: this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=7777, help="The port; 0 takes any that is free. [7777]")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; print the address only.")
def command(
    text: str | None, model_paths: tuple[Path, ...], runs: Path, host: str, port: int, no_browser: bool
) -> None:
    """Open a page that shows every number on the way from a sentence to its translation, and lets you change them.

    TEXT is the sentence to begin with. Nothing leaves this machine. Ctrl-C ends it.

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
        click.echo(f"{HOW_TO_BUILD}\nThe API is served without it.", err=True)
    bound = bind(host, port)
    address = address_of(bound, host) + (f"#translate?text={quote(text)}" if text else "")

    if not is_loopback(host):
        click.echo(f"Anybody who can reach {host} may use it while it runs.", err=True)

    def announce() -> None:
        click.echo(f"the explorer is ready at {address}   (Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # the server may have taken it for its own
        serve(bound, host, folders, runs, announce)
    click.echo("the explorer has ended")


def find_models(runs: Path, text: str | None) -> list[Path]:
    """The one that the environment names, or those that are installed and those that were trained here last.

    The page begins with the first: an installed one that reads the text, or Chinese as the lesson does.
    """
    if os.environ.get("REGARD_MODEL"):
        return [Path(os.environ["REGARD_MODEL"])]
    from regard.model_folder.registry import describe, installed_models
    from regard.text.language import detect_language

    language = detect_language(text or "").language or "zh"
    models = [model for model in installed_models() if model.translates(None, None)]
    installed = [model.folder for model in sorted(models, key=lambda model: not model.translates(language, None))]
    made = sorted(runs.glob("*/model/SHA256SUMS"), key=lambda path: -path.stat().st_mtime)
    found = [path.parent for path in made if describe(path.parent).translates(None, None)]
    if not installed and not found:
        raise ConfigError(
            f"which model? Name its folder with --model or REGARD_MODEL; there is none under {runs}, and none is "
            "installed. regard train recipes/reverse.toml makes one"
        )
    return installed + found[:MOST_FOUND]
