"""`regard params`: where the parameters of a model are."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from regard.config import FamilyConfig, RunConfig
    from regard.models.ledger import Ledger, Row

PAPER_VOCABULARY = 37_000  # section 5.1
BAR = 30  # characters for the whole model
WIDE = 116  # columns: enough for the notes beside the matrices
PLAIN_WIDTH = 200  # wider than any row: only a terminal has an edge


@click.command("params", short_help="Every matrix of a model, counted.")
@click.argument("what", type=click.Path())  # a path as far as completion is concerned
@click.option("--vocab", type=click.IntRange(min=1), help="Size of the vocabulary [37,000, or its own].")
@click.option("--all", "every", is_flag=True, help="Every layer on its own; otherwise identical ones are one row.")
@click.option("--json", "as_json", is_flag=True, help="The ledger as one JSON object.")
def command(what: str, vocab: int | None, every: bool, as_json: bool) -> None:
    """Every matrix of WHAT with its shape and size, and the shares of attention, feed-forward and embeddings.

    WHAT is a preset, a recipe, or a model folder. The presets are the paper's Transformer (tiny, small, base, big),
    what was before it (lstm, bahdanau, gnmt) and what came of it (bert-mini, bert-base, gpt-small, gpt2, gpt3,
    t5-small, t5-base, vit-base, deepseek-v3). A matrix in several roles is counted once. A recipe's vocabulary is that
    of its tokenizer.

    \b
    Examples:
      regard params base                       the paper's model: 63 million
      regard params big --vocab 32000 --all
      regard params gnmt --vocab 32000         eight LSTM layers and eight
      regard params gpt3                       175 billion, none of which are allocated
      regard params recipes/reverse.toml --json
      regard params runs/reverse/model
    """
    from regard.models.ledger import ledger

    model, vocabulary = find_model(what, vocab)
    book = ledger(model)
    rows = book.rows if every else book.folded()
    if as_json:
        click.echo(json.dumps(describe(what, model, book, rows), ensure_ascii=False, indent=2))
    else:
        console = open_console()
        met = f", of which one token meets {book.active:,}" if book.totals["experts"] else ""
        click.echo(f"{what}: {book.total:,} parameters{met}{vocabulary and f', with a vocabulary of {vocabulary}'}\n")
        click.echo(drawn(console, matrices(rows, with_notes=console.width >= WIDE)))
        if console.width < WIDE:
            click.echo("".join(f"{row.name} is {row.note}\n" for row in rows if row.note.startswith("shared")))
        click.echo(drawn(console, shares(book)), nl=False)


def find_model(what: str, vocab: int | None) -> tuple[FamilyConfig, str]:
    """The model that a preset, recipe or folder describes, and a word on its vocabulary."""
    from regard.config import PRESETS, VOCABULARIES, FamilyConfig, convert, with_vocabulary
    from regard.config.recipe import load_recipe
    from regard.model_folder.folder import read_description

    if what in PRESETS:
        size = vocab or VOCABULARIES.get(what, PAPER_VOCABULARY)
        whose = "its own" if what in VOCABULARIES else "the paper's"
        note = "" if vocab else f", {whose}: --vocab changes it"
        model = with_vocabulary(convert(FamilyConfig, PRESETS[what], what), size)
        words = sizes_in_words(model)
        return model, f"{words}{note}" if words else ""
    path = Path(what)
    if path.is_dir():
        if vocab:
            raise ConfigError(f"--vocab is for presets and recipes: the model in {path} has its vocabulary already")
        model = read_description(path).model
        return model, sizes_in_words(model)
    if path.is_file() or path.suffix == ".toml":
        model, note = size_recipe(load_recipe(path), vocab)
        return model, f"{sizes_in_words(model)}{note}"
    raise ConfigError(
        f"{what} is neither a preset ({', '.join(PRESETS)}) nor the path of a recipe (.toml) or a model folder"
    )


def size_recipe(run: RunConfig, vocab: int | None) -> tuple[FamilyConfig, str]:
    """A recipe's model with the vocabulary that training would give it, as far as that can be known."""
    from regard.config import vocabulary_sizes, with_vocabulary
    from regard.data.prepare import ready_tokenizer

    model, tokenizer = run.model, run.data.tokenizer
    if vocab:
        src, tgt, note = vocab, vocab, ""
    elif all(vocabulary_sizes(model)):
        return model, ""
    elif not tokenizer.files:
        src = tgt = tokenizer.vocab_size
        note = ", as data.tokenizer.vocab_size says: less where the text is too little for so many"
    else:
        try:
            ready = ready_tokenizer(tokenizer.files, run.data.lowercase)
            src, tgt, note = ready.src.size, ready.tgt.size, ", the tokenizer's"
        except ConfigError:
            src = tgt = PAPER_VOCABULARY
            note = f", the paper's, since {' and '.join(tokenizer.files)} cannot be read: --vocab changes it"
    return with_vocabulary(model, src, tgt), note


def sizes_in_words(model: FamilyConfig) -> str:
    """Nothing for a model that sees pictures."""
    from regard.config import vocabulary_sizes

    sizes = vocabulary_sizes(model)
    if len(set(sizes)) < 2:
        return "".join(f"{size:,}" for size in set(sizes))
    return f"{sizes[0]:,} (source) and {sizes[1]:,} (target)"


def describe(what: str, model: FamilyConfig, book: Ledger, rows: Sequence[Row]) -> dict[str, Any]:
    shares = book.shares
    return {
        "what": what,
        **{name: size for name, size in dataclasses.asdict(model).items() if name.endswith("vocab_size")},
        "total": book.total,
        **({"active": book.active} if book.totals["experts"] else {}),
        "groups": {group: {"count": count, "share": shares[group]} for group, count in book.totals.items()},
        "matrices": [{**dataclasses.asdict(row), "count": row.count} for row in rows],
    }


def matrices(rows: Sequence[Row], with_notes: bool) -> Table:
    table = bare_table()
    table.add_column("matrix", no_wrap=True)
    table.add_column("shape", justify="right", no_wrap=True)
    table.add_column("layers", justify="right", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True, style="bold")
    if with_notes:
        table.add_column("", style="dim", no_wrap=True)
    for row in rows:
        shape = " × ".join(f"{size:,}" for size in row.shape)
        cells = [row.name, shape, f"× {row.times}" if row.times > 1 else "", f"{row.count:,}"]
        table.add_row(*cells, *([row.note] if with_notes else []))
    return table


def shares(book: Ledger) -> Table:
    """What each group holds, with a bar; groups without parameters are left out."""
    table = bare_table()
    table.add_column("in all", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True, style="bold")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="magenta")
    for group, count in book.totals.items():
        if count:
            share = count / book.total
            table.add_row(group, f"{count:,}", f"{share:.1%}", bar(share))
    table.add_row("total", f"{book.total:,}", "100.0%", "")
    return table


def bar(share: float) -> str:
    """A bar to an eighth of a character; the least share there is shows as the thinnest."""
    eighths = max(round(share * BAR * 8), 1)
    return "█" * (eighths // 8) + ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]


def bare_table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def open_console() -> Console:
    """Coloured and as wide as the terminal; or plain, and as wide as may be."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH, color_system=None)


def drawn(console: Console, table: Table) -> str:
    with console.capture() as captured:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
