"""`regard models`: list, download, show and remove installed models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from regard.model_folder.registry import InstalledModel


@click.group("models", short_help="List, download and remove models.", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the installed models: name, languages, size, scores, licence. With a subcommand: get, show, remove.

    Installed are the model folders in the folder REGARD_MODELS (or ~/.local/share/regard/models), and those that come
    with Regard. For a language pair, regard translate uses the first in the list. --model accepts the name of any.

    \b
    Examples:
      regard models
      regard models get Helsinki-NLP/opus-mt-en-de --allow-pickle
      regard translate "Two dogs run." --model opus-mt-en-de
      regard models remove opus-mt-en-de
    """
    if context.invoked_subcommand:
        return
    from regard.model_folder.registry import HOW_TO_GET_ONE, installed_models

    models = installed_models()
    if as_json:
        click.echo(json.dumps([describe(model) for model in models], ensure_ascii=False, indent=2))
    elif not models:
        click.echo(f"no models installed: {HOW_TO_GET_ONE}")
    else:
        from regard.cli.tables import open_console, rendered

        click.echo(rendered(open_console(), table_of(models)), nl=False)


@command.command("get")
@click.argument("address", metavar="OWNER/NAME[@REVISION]")
@click.option("--name", default="", show_default="NAME", help="Name of the installed model.")
@click.option("--allow-pickle", is_flag=True, help="Read pytorch_model.bin, a pickle: tensors only, no code is run.")
def get(address: str, name: str, allow_pickle: bool) -> None:
    """Download a model of the Hugging Face Hub, verify it, and install it.

    Only the files that Regard needs are downloaded; sizes and checksums are verified. An interrupted download is
    resumed by the same command. HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN, HF_TOKEN_PATH and HF_HOME are respected.

    \b
    Examples:
      regard models get google-t5/t5-small
      regard models get Helsinki-NLP/opus-mt-zh-en@refs/pr/23 --name zh-en-large
    """
    from regard.cli.downloads import DownloadBars
    from regard.interop.huggingface.fetch import fetch_model
    from regard.model_folder.registry import new_folder
    from regard.network.hub import parse_address
    from regard.pipelines.trial import try_model

    target = new_folder(name or parse_address(address)[0].split("/")[-1])
    with DownloadBars() as bars:
        imported = fetch_model(address, target, allow_pickle, bars.say, bars.update, try_model)
    click.echo(f"installed {target.name}: {imported.description.model.use}", err=True)
    click.echo(f"try it: {imported.description.model.use.command} --model {target.name}")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print the model card of an installed model, and where it is.

    \b
    Examples:
      regard models show zh-en
    """
    from regard.errors import ConfigError
    from regard.model_folder.files import MOST_SETTINGS, has_file, read_file
    from regard.model_folder.folder import CARD
    from regard.model_folder.registry import installed_models

    found = [model for model in installed_models() if model.name == name]
    if not found:
        raise ConfigError(f"no model {name!r} is installed; regard models lists the installed models")
    [model, *_] = found
    click.echo(f"{model.folder}: {model.problem or f'{model.size:,} bytes'}")
    if not model.problem and has_file(model.folder, CARD):
        click.echo(read_file(model.folder, CARD, MOST_SETTINGS).decode("utf-8", errors="replace"))


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Delete an installed model from the folder of your models.

    \b
    Examples:
      regard models remove opus-mt-en-de
    """
    from regard.model_folder.atomic import remove_folder
    from regard.model_folder.registry import delete_half_removed, find_own

    delete_half_removed(name)
    folder = find_own(name)
    if folder.is_symlink():
        folder.unlink()
    else:
        remove_folder(folder)
    click.echo(f"removed {folder}")


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
    from regard.cli.tables import bare_table

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
