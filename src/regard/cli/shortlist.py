"""`regard shortlist`: which words a model's translations may need, learnt from its training pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import DataConfig
    from regard.model_folder.folder import ModelDescription


@click.command("shortlist", short_help="Give a model a list of likely words, to translate faster.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--recipe", type=click.Path(path_type=Path), required=True, help="Whose training pairs to learn from.")
@click.option("--translations", type=click.IntRange(min=1), help="Kept of each source piece, the likeliest. [100]")
@click.option("--frequent", type=click.IntRange(min=0), help="The most frequent pieces that are always there. [400]")
def command(model: Path, recipe: Path, translations: int | None, frequent: int | None) -> None:
    """Learn from the training pairs of a recipe which words go with which, and write it into the folder of MODEL.

    With regard translate --shortlist, only words are then searched that the sentences of a batch are ever translated
    by, the most frequent ones, and bytes, with which any text can be written. That is faster, most of all for few
    sentences at a time, and not exact: a translation may depend on what else is translated with it.

    \b
    Examples:
      regard shortlist runs/multi30k-en-de/model --recipe recipes/multi30k-en-de.toml
      regard translate "Two dogs run." --model runs/multi30k-en-de/model --shortlist
    """
    from regard.config.recipe import load_recipe
    from regard.data.prepare import prepare
    from regard.decode.shortlist import FREQUENT, TRANSLATIONS, learn_shortlist
    from regard.model_folder.atomic import default_cache, remove_leftovers
    from regard.model_folder.folder import read_description, write_shortlist
    from regard.model_folder.registry import find_folder
    from regard.tokenizers.pair import TokenizerPair

    folder = find_folder(model)
    description = read_description(folder)
    data = load_recipe(recipe).data
    check(description, data, folder, recipe)
    tokenizer = TokenizerPair.from_files(description.tokenizer, description.lowercase)

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
        f"{folder} has a shortlist, learnt from {sum(map(len, stores)):,} pairs: of {tokenizer.tgt.size:,} pieces, "
        f"{len(learnt.always):,} for every sentence and {mean:,.0f} more for each source piece, on average"
    )
    click.echo(f'try it: regard translate "…" --model {folder} --shortlist')


def check(description: ModelDescription, data: DataConfig, folder: Path, recipe: Path) -> None:
    """Refuse what cannot be meant: a model that does not translate, pairs of other languages."""
    from regard.config import TranslationConfig

    if not isinstance(description.model, TranslationConfig):
        raise ConfigError(f"{folder} is no translator, and only translators have shortlists")
    mine, theirs = ((one.src_lang, one.tgt_lang) for one in (description, data))
    if all((*mine, *theirs)) and mine != theirs:
        raise ConfigError(
            f"{folder} translates from {mine[0]} to {mine[1]}, but the pairs of {recipe} are from {theirs[0]} to "
            f"{theirs[1]}"
        )
