"""`regard params`: parameter counts of a model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.tables import bare_table, open_console, rendered
from regard.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from regard.config import FamilyConfig, RunConfig
    from regard.models.ledger import Ledger, Row

PAPER_VOCABULARY = 37_000  # section 5.1
BAR = 30  # characters for 100 %
WIDE = 116  # columns that the table needs with notes


@click.command("params", short_help="Show parameter counts.")
@click.argument("what", type=click.Path())  # for shell completion
@click.option("--vocab", type=click.IntRange(min=1), show_default="the model's, else 37,000", help="Vocabulary size.")
@click.option("--all", "every", is_flag=True, help="Show every layer; by default identical layers are one row.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(what: str, vocab: int | None, every: bool, as_json: bool) -> None:
    """Show the shape and parameter count of every weight of WHAT, and the shares of attention, feed-forward and
    embeddings.

    WHAT is a preset, a recipe, or a model folder. Presets: the paper's Transformer (tiny, small, base, big), recurrent
    models (lstm, bahdanau, gnmt), later models (bert-mini, bert-base, gpt-small, gpt2, gpt3, t5-small, t5-base,
    vit-base, deepseek-v3). Tied weights are counted once. The vocabulary size of a recipe is that of its tokenizer.

    \b
    Examples:
      regard params base                       the paper's base model: 63 million
      regard params big --vocab 32000 --all
      regard params gnmt --vocab 32000         8 encoder and 8 decoder LSTM layers
      regard params gpt3                       175 billion; no memory is allocated
      regard params recipes/reverse.toml --json
      regard params runs/reverse/model
    """
    from regard.models.ledger import ledger

    model, vocabulary = find_model(what, vocab)
    counts = ledger(model)
    rows = counts.rows if every else counts.folded()
    if as_json:
        click.echo(json.dumps(describe(what, model, counts, rows), ensure_ascii=False, indent=2))
    else:
        console = open_console()
        active = f", {counts.active:,} active per token" if counts.totals["experts"] else ""
        click.echo(f"{what}: {counts.total:,} parameters{active}{vocabulary and f', vocabulary {vocabulary}'}\n")
        click.echo(rendered(console, matrices(rows, with_notes=console.width >= WIDE)))
        if console.width < WIDE:
            click.echo("".join(f"{row.name} is {row.note}\n" for row in rows if row.note.startswith("shared")))
        click.echo(rendered(console, shares(counts)), nl=False)


def find_model(what: str, vocab: int | None) -> tuple[FamilyConfig, str]:
    """The model of a preset, recipe or folder, and a description of its vocabulary."""
    from regard.config import PRESETS, VOCABULARIES, FamilyConfig, convert
    from regard.config.recipe import load_recipe
    from regard.model_folder.folder import read_description

    if what in PRESETS:
        size = vocab or VOCABULARIES.get(what, PAPER_VOCABULARY)
        whose = "its own" if what in VOCABULARIES else "the paper's"
        note = "" if vocab else f", {whose} (change it with --vocab)"
        model = convert(FamilyConfig, PRESETS[what], what).with_vocabulary(size)
        sizes = vocabulary_text(model)
        return model, f"{sizes}{note}" if sizes else ""
    path = Path(what)
    if path.is_dir():
        if vocab:
            raise ConfigError(f"--vocab applies to presets and recipes; the model in {path} has a fixed vocabulary")
        model = read_description(path).model
        return model, vocabulary_text(model)
    if path.is_file() or path.suffix == ".toml":
        model, note = size_recipe(load_recipe(path), vocab)
        return model, f"{vocabulary_text(model)}{note}"
    raise ConfigError(f"{what} is not a preset ({', '.join(PRESETS)}), a recipe (.toml) or a model folder")


def size_recipe(run: RunConfig, vocab: int | None) -> tuple[FamilyConfig, str]:
    """A recipe's model with the vocabulary that training would give it, as far as it is known."""
    from regard.data.prepare import ready_tokenizer

    model, tokenizer = run.model, run.data.tokenizer
    if vocab:
        src, tgt, note = vocab, vocab, ""
    elif all(model.vocabulary_sizes):
        return model, ""
    elif not tokenizer.files:
        src = tgt = tokenizer.vocab_size
        note = " from data.tokenizer.vocab_size (less if the training text is small)"
    else:
        try:
            ready = ready_tokenizer(tokenizer.files, run.data.lowercase)
            src, tgt, note = ready.src.size, ready.tgt.size, ", the tokenizer's"
        except ConfigError:
            src = tgt = PAPER_VOCABULARY
            note = f", the paper's, since {' and '.join(tokenizer.files)} cannot be read (change it with --vocab)"
    return model.with_vocabulary(src, tgt), note


def vocabulary_text(model: FamilyConfig) -> str:
    """Empty for a model of images."""
    sizes = model.vocabulary_sizes
    if len(set(sizes)) < 2:
        return "".join(f"{size:,}" for size in set(sizes))
    return f"{sizes[0]:,} (source) and {sizes[1]:,} (target)"


def describe(what: str, model: FamilyConfig, counts: Ledger, rows: Sequence[Row]) -> dict[str, Any]:
    shares = counts.shares
    return {
        "what": what,
        **{name: size for name, size in dataclasses.asdict(model).items() if name.endswith("vocab_size")},
        "total": counts.total,
        **({"active": counts.active} if counts.totals["experts"] else {}),
        "groups": {group: {"count": count, "share": shares[group]} for group, count in counts.totals.items()},
        "matrices": [{**dataclasses.asdict(row), "count": row.count} for row in rows],
    }


def matrices(rows: Sequence[Row], with_notes: bool) -> Table:
    table = bare_table()
    table.add_column("weight", no_wrap=True)
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


def shares(counts: Ledger) -> Table:
    """The share of each group, with a bar; groups without parameters are left out."""
    table = bare_table()
    table.add_column("group", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True, style="bold")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="magenta")
    for group, count in counts.totals.items():
        if count:
            share = count / counts.total
            table.add_row(group, f"{count:,}", f"{share:.1%}", bar(share))
    table.add_row("total", f"{counts.total:,}", "100.0%", "")
    return table


def bar(share: float) -> str:
    """A bar with a resolution of an eighth of a character; at least the thinnest one."""
    eighths = max(round(share * BAR * 8), 1)
    return "█" * (eighths // 8) + ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
