"""`regard shortlist`: learn a lexical shortlist from training pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import DataConfig
    from regard.model_folder.folder import ModelDescription


@click.command("shortlist", short_help="Add a lexical shortlist to a model, for faster search.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--recipe", type=click.Path(path_type=Path), required=True, help="Recipe that provides the training pairs."
)
@click.option("--translations", type=click.IntRange(min=1), show_default="100", help="Target tokens per source token.")
@click.option(
    "--frequent", type=click.IntRange(min=0), show_default="400", help="Most frequent target tokens, always included."
)
def command(model: Path, recipe: Path, translations: int | None, frequent: int | None) -> None:
    """Learn which target tokens translate each source token from the training pairs of a recipe, and store this
    shortlist in the folder of MODEL.

    With regard translate --shortlist, the output vocabulary of a batch is then reduced to the likely translations of
    its source tokens, the most frequent tokens, and the byte tokens. This is faster, mostly for small batches, but
    approximate: a translation may depend on the other sentences of its batch.

    \b
    Examples:
      regard shortlist runs/multi30k-en-de/model --recipe recipes/multi30k-en-de.toml
      regard translate "Two dogs run." --model runs/multi30k-en-de/model --shortlist
    """
    from regard.config.recipe import load_recipe
    from regard.data.prepare import prepare
    from regard.decode.learn_shortlist import FREQUENT, TRANSLATIONS, learn_shortlist
    from regard.model_folder.atomic import default_cache, remove_leftovers
    from regard.model_folder.folder import read_description, write_shortlist
    from regard.model_folder.registry import find_folder
    from regard.tokenizers.read import translation_tokenizer

    folder = find_folder(model)
    description = read_description(folder)
    data = load_recipe(recipe).data
    check(description, data, folder, recipe)
    tokenizer = translation_tokenizer(folder, description)

    def say(text: str) -> None:
        click.echo(text, err=True)

    stores = prepare(data, default_cache(), say, tokenizer).train
    counts = (TRANSLATIONS if translations is None else translations, FREQUENT if frequent is None else frequent)
    learnt = learn_shortlist(stores, tokenizer, say, *counts)
    try:
        remove_leftovers(folder)
        write_shortlist(folder, learnt.to_bytes())
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from None
    mean = len(learnt.pieces) / tokenizer.src.size
    click.echo(
        f"{folder} has a shortlist learnt from {sum(map(len, stores)):,} pairs: of {tokenizer.tgt.size:,} tokens, "
        f"{len(learnt.always):,} for every sentence and on average {mean:,.0f} more per source token"
    )
    click.echo(f'try it: regard translate "…" --model {folder} --shortlist')


def check(description: ModelDescription, data: DataConfig, folder: Path, recipe: Path) -> None:
    """Raise for a model that does not translate, or for pairs of other languages."""
    from regard.config import TranslationConfig

    if not isinstance(description.model, TranslationConfig):
        raise ConfigError(f"{folder} is not a translation model; only translation models have shortlists")
    mine, theirs = ((one.src_lang, one.tgt_lang) for one in (description, data))
    if all((*mine, *theirs)) and mine != theirs:
        raise ConfigError(
            f"{folder} translates from {mine[0]} to {mine[1]}, but the pairs of {recipe} are from {theirs[0]} to "
            f"{theirs[1]}"
        )
