"""`regard config`: show and validate recipes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import click

from regard.cli.inputs import spinner

if TYPE_CHECKING:
    from regard.config import DataConfig, RunConfig
    from regard.model_folder.folder import ModelDescription

recipe_argument = click.argument("recipe", type=click.Path(path_type=Path))
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting; repeatable."
)


@click.group("config", short_help="Show or validate a recipe.")
def command() -> None:
    """Show or validate a recipe without training.

    \b
    Examples:
      regard config show recipes/reverse.toml
      regard config check recipes/reverse.toml --set train.lr=3e-4
    """


@command.command("show")
@recipe_argument
@set_option
def show(recipe: Path, overrides: tuple[str, ...]) -> None:
    """Print RECIPE with all defaults and its preset filled in; the output is a recipe itself.

    \b
    Examples:
      regard config show recipes/reverse.toml --set model.preset=base
      regard config show recipes/reverse.toml > whole.toml
    """
    from regard.config.recipe import load_recipe, to_toml

    click.echo(to_toml(load_recipe(recipe, overrides)), nl=False)


@command.command("check")
@recipe_argument
@set_option
@click.option("--no-data", is_flag=True, help="Check the settings only, not the data.")
def check(recipe: Path, overrides: tuple[str, ...], no_data: bool) -> None:
    """Check that RECIPE can be trained: its settings are valid and its data can be read.

    \b
    Examples:
      regard config check recipes/reverse.toml
      regard config check my.toml --set data.tokenizer.vocab_size=16000 --no-data
    """
    from regard.config.recipe import load_recipe

    run = load_recipe(recipe, overrides)
    if not no_data:
        check_data(run)
    click.echo(f"{recipe}: OK")


def check_data(run: RunConfig) -> None:
    """Raise the errors that `regard train` would raise before the first step."""
    from regard.config import ViTConfig
    from regard.data.examples import prepare_images
    from regard.data.texts import check_texts

    initial = check_initial_model(run)
    match run.task:
        case "image_classification":
            assert isinstance(run.model, ViTConfig)
            prepare_images(run.data, run.model)
        case "text_classification" | None:
            check_labels(run, initial)
        case "language_modelling" | "masked_language_modelling" | "span_corruption":
            check_texts(run.data)
        case "translation":
            check_pairs(run.data)
        case _:
            assert_never(run.task)


def check_initial_model(run: RunConfig) -> ModelDescription | None:
    """The initial model (train.init_from), if there is one; its tokenizer must fit this family."""
    if not run.train.init_from:
        return None
    from regard.config import TranslationConfig, ViTConfig
    from regard.tokenizers.pair import TokenizerPair
    from regard.train.launch import read_initial_model
    from regard.train.tasks import saved_tokenizer

    initial = read_initial_model(run)
    if initial is not None and isinstance(run.model, TranslationConfig):
        TokenizerPair.from_files(initial.tokenizer, initial.lowercase)
    elif not isinstance(run.model, ViTConfig):
        saved_tokenizer(initial)
    return initial


def check_labels(run: RunConfig, initial: ModelDescription | None) -> None:
    """Prepare the data as training does, with any vocabulary in place of one that would have to be trained."""
    from regard.model_folder.atomic import default_cache
    from regard.model_folder.folder import ModelDescription
    from regard.tokenizers.characters import CharacterTokenizer
    from regard.train.tasks import prepare_run

    any_vocabulary = ModelDescription(run.model, run.decode, "", "", False, CharacterTokenizer("a").files())
    prepare_run(run, default_cache(), click.echo, initial or any_vocabulary)
    check_pairs(run.data)


def check_pairs(data: DataConfig) -> None:
    from regard.data import corpus
    from regard.data.prepare import ready_tokenizer

    corpus.check_training(data)
    corpora = [*data.train, *data.valid, *data.test]
    corpus.check(corpora)
    if data.tokenizer.files:
        ready_tokenizer(data.tokenizer.files, data.lowercase)
    for one in corpora:
        name = corpus.corpus_name(one)
        with spinner(f"reading {name}"):
            pairs = sum(1 for _ in corpus.read_pairs(one))  # all lines: the sides may have different lengths
        click.echo(f"{name}: {pairs:,} pairs")
