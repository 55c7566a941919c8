"""`regard models`: list the installed models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from regard.model_folder.registry import InstalledModel


@click.command("models", short_help="List the installed models.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the installed models: name, languages, size, scores, licence.

    Installed are the model folders in the folder REGARD_MODELS, and those that come with Regard. For a language pair,
    regard translate uses the first in the list. --model accepts the name of any of them.

    \b
    Examples:
      regard models
      regard models --json
      REGARD_MODELS=~/models regard models
    """
    from regard.model_folder.registry import HOW_TO_GET_ONE, installed_models

    models = installed_models()
    if as_json:
        click.echo(json.dumps([describe(model) for model in models], ensure_ascii=False, indent=2))
    elif not models:
        click.echo(f"no models installed: {HOW_TO_GET_ONE}")
    else:
        from regard.cli.params import open_console, rendered

        click.echo(rendered(open_console(), table_of(models)), nl=False)


def describe(model: InstalledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "family": model.family,
        "src_lang": model.src_lang,
        "tgt_lang": model.tgt_lang,
        "bytes": model.size,
        "scores": dict(model.head.scores),
        "licence": model.head.licence,
        "bundled": model.bundled,
        "folder": str(model.folder),
        **({"problem": model.problem} if model.problem else {}),
    }


def table_of(models: list[InstalledModel]) -> Table:
    from regard.cli.params import bare_table

    table = bare_table()
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("languages", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("scores")
    table.add_column("data licence")
    table.add_column("location", overflow="fold", style="dim")
    for model in models:
        if model.problem:
            table.add_row(model.name, "", "", f"cannot be used: {model.problem}", "", str(model.folder))
            continue
        scores = "  ".join(f"{name} {value:.4g}" for name, value in model.head.scores.items())
        where = "bundled" if model.bundled else str(model.folder)
        languages = f"{model.src_lang or '?'} → {model.tgt_lang or '?'}"
        if not model.translates(None, None):
            languages = f"{model.family}, {model.src_lang}" if model.src_lang else model.family
        table.add_row(model.name, languages, f"{model.size / 1e6:.1f} MB", scores, model.head.licence, where)
    return table
