"""`regard data`: list and download the published corpora that the recipes use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table


@click.group("data", short_help="List and download corpora.")
def command() -> None:
    """Published corpora for the recipes: list, download, find.

    They are stored in the folder REGARD_DATA, or, without it, in ~/.local/share/regard/data, where recipes find them.

    \b
    Examples:
      regard data list
      regard data get multi30k
      regard data path multi30k
    """


@command.command("list")
def list_() -> None:
    """List the corpora: source, licence, size, and which of them are there.

    \b
    Examples:
      regard data list
    """
    from regard.cli.tables import open_console, rendered

    click.echo(rendered(open_console(), table_of_corpora()), nl=False)


@command.command("get")
@click.argument("name")
def get(name: str) -> None:
    """Download a corpus, prepare it as the recipes expect it, and compare it with its checksums.

    What an interrupted command has downloaded is not downloaded again.

    \b
    Examples:
      regard data get multi30k
    """
    from regard.cli.downloads import DownloadBars
    from regard.data.fetch import fetch_corpus
    from regard.data.published import data_folder, find_corpus

    corpus = find_corpus(name)
    with DownloadBars() as bars:
        if corpus.files:
            bars.say(f"{corpus.about}\nsource: {corpus.source}; licence: {corpus.licence}")
        target = fetch_corpus(corpus, data_folder(), bars.update)
    click.echo(target)


@command.command("path")
@click.argument("name", required=False)
def path(name: str | None) -> None:
    """Print the folder of the corpora, or of one that is there.

    \b
    Examples:
      regard data path multi30k
    """
    from regard.data.published import data_folder, find_corpus
    from regard.errors import DataError

    folder = data_folder()
    if name:
        folder = folder / find_corpus(name).name
        if not folder.is_dir():
            raise DataError(f"{folder} is not there; regard data get {name} downloads the corpus")
    click.echo(folder)


def table_of_corpora() -> Table:
    from regard.cli.tables import bare_table
    from regard.data.published import data_folder, published_corpora

    table = bare_table()
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("corpus")
    table.add_column("source")
    table.add_column("licence")
    for corpus in published_corpora():
        state = "here" if (data_folder() / corpus.name).is_dir() else "regard data get" if corpus.files else "by hand"
        size = f"{corpus.size / 1e6:.1f} MB" if corpus.files else ""
        table.add_row(corpus.name, size, state, corpus.about, corpus.source, corpus.licence)
    return table
