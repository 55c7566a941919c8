"""`regard evaluate`: score a model on a test set."""

from __future__ import annotations

import json
import math
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import decode_options, model_option, precision_option, progress_bar, spinner
from regard.cli.outputs import check_output, write_output
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.config import CorpusConfig, Precision
    from regard.pipelines.model_translator import ModelTranslator


DETECTED_FROM = 100  # sentences to detect the languages from
OTHER_TASKS_OPTIONS = ("model_path", "recipe", "split", "as_json")  # for models that do not translate


@click.command("evaluate", short_help="Score a model on a test set.")
@model_option
@precision_option
@click.option("--src", type=click.Path(), help="Source sentences, one per line; plain, .gz or .zst.")
@click.option("--ref", type=click.Path(), help="Reference translations, one per line.")
@click.option(
    "--recipe", type=click.Path(path_type=Path), help="Recipe that provides the test data, instead of --src and --ref."
)
@click.option("--split", type=click.Choice(["valid", "test"]), default="valid", help="Split of the recipe.")
@click.option("--against", type=click.Path(path_type=Path), help="Second model to compare with, by paired bootstrap.")
@click.option("--lowercase", is_flag=True, help="Ignore case (sacrebleu -lc).")
@click.option("--beam", type=int, help="As in regard translate.")
@click.option("--length-penalty", type=float, help="As in regard translate.")
@click.option("--shortlist", is_flag=True, help="As in regard translate.")
@click.option("--task", help="Task of a multi-task model, or a word of its name.")
@click.option("--lang", show_default="the model's", help="Target language, which selects the BLEU tokenizer.")
@click.option("--outputs", type=click.Path(path_type=Path), help="File for the translations.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    model_path: Path | None,
    precision: Precision,
    src: str | None,
    ref: str | None,
    recipe: Path | None,
    split: str,
    against: Path | None,
    lowercase: bool,
    shortlist: bool,
    task: str | None,
    lang: str | None,
    outputs: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Translate a test set and compute BLEU and chrF (sacreBLEU, with signatures), loss and perplexity.

    The model is scored without guards. For models of other tasks, the loss and, for classifiers, the accuracy are
    computed.

    \b
    Examples:
      regard evaluate --src test.zh --ref test.en
      regard evaluate --model RUN/model --src test.en.gz --ref test.de.gz --lowercase --beam 5
      regard evaluate --model RUN/model --recipe recipes/multi30k-en-de.toml --split valid
      regard evaluate --model A --against B --src test.en --ref test.de
    """
    from regard.data.corpus import read_pairs

    check_output(outputs)
    if model_path is not None and not translates(model_path):
        click.echo(score_other_task(model_path, recipe, split, as_json))
        return
    pairs = [(pair.src, pair.tgt) for corpus in chosen_corpora(src, ref, recipe, split) for pair in read_pairs(corpus)]
    if not pairs:
        raise DataError("the test set is empty")
    translator = load_model(model_path, precision, pairs, shortlist, task)
    lang = translator.tgt_lang if lang is None else lang
    lowercase = lowercase or translator.tokenizer.lowercase  # such a model has no upper case
    rival = None if against is None else load_rival(against, precision, pairs, shortlist, task)
    translations = translate_all(translator, pairs, options)
    if outputs is not None:
        write_output("".join(line + "\n" for line in translations), outputs)
    result = compute_scores(translator, pairs, translations, lang, lowercase)
    if rival is not None:
        other = translate_all(rival, pairs, options)
        references = [reference for _, reference in pairs]
        result["against"] = bootstrap(str(against), translations, other, references, lang, lowercase)
    click.echo(json.dumps(result, ensure_ascii=False, indent=2) if as_json else readable(result))


def compute_scores(
    translator: ModelTranslator, pairs: list[tuple[str, str]], translations: list[str], lang: str, lowercase: bool
) -> dict[str, Any]:
    from regard.evaluation.scores import measure

    with spinner("computing the loss"):
        nll, perplexity = loss_of(translator, pairs)
    scores = measure(translations, [reference for _, reference in pairs], lang, lowercase)
    return {
        "model": str(translator.folder),
        "sentences": len(pairs),
        "scores": {score.name: {"score": score.score, "signature": score.signature} for score in scores},
        "loss": nll,
        "perplexity": perplexity,
    }


def bootstrap(
    rival: str, translations: list[str], others: list[str], references: list[str], lang: str, lowercase: bool
) -> dict[str, Any]:
    """Paired bootstrap test of the difference between two models."""
    from regard.evaluation.scores import compare

    with spinner("comparing by bootstrap"):
        rows = compare(translations, others, references, lang, lowercase)
    return {"model": rival, "bootstrap": [vars(row) for row in rows]}


def translates(path: Path) -> bool:
    """Whether a model translates; a folder that cannot be read is reported when it is loaded."""
    from regard.model_folder.registry import describe, find_folder

    model = describe(find_folder(path))
    return bool(model.problem) or model.translates(None, None)


def score_other_task(path: Path, recipe: Path | None, split: str, as_json: bool) -> str:
    """The scores of a model of another task on a recipe's data."""
    refuse_options_of_translation(path)
    if recipe is None:
        raise ConfigError(
            f"no test data: {path} is not a translation model, so give a recipe for its task with --recipe"
        )
    from regard.config.recipe import load_recipe
    from regard.model_folder.registry import find_folder
    from regard.train.evaluate import evaluate_model

    with spinner(f"evaluating on {split}"):
        scores = evaluate_model(find_folder(path), load_recipe(recipe), split, lambda text: None).scores()
    if as_json:
        return json.dumps({"model": str(path), "split": split, "scores": scores}, indent=2)
    return "\n".join(f"{name} {value:.4f}" for name, value in scores.items())


def refuse_options_of_translation(path: Path) -> None:
    """Raise for options that have no effect on such a model."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name not in OTHER_TASKS_OPTIONS
        and context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise ConfigError(
            f"{path} is not a translation model; {', '.join(given)} has no effect on it. Use only --recipe, --split "
            f"and --json"
        )


def chosen_corpora(src: str | None, ref: str | None, recipe: Path | None, split: str) -> tuple[CorpusConfig, ...]:
    from regard.config import CorpusConfig
    from regard.config.recipe import load_recipe
    from regard.data.corpus import expand

    if recipe is not None and src is None and ref is None:
        corpora: tuple[CorpusConfig, ...] = getattr(load_recipe(recipe).data, split)
        if not corpora:
            raise ConfigError(f"{recipe} has no {split} data: set data.{split}")
        return corpora
    if recipe is None and src is not None and ref is not None:
        for option, path in (("--src", src), ("--ref", ref)):
            if not expand(path).exists():
                raise DataError(f"{option} {path}: file not found")
        return (CorpusConfig(src=src, tgt=ref),)
    raise ConfigError("no test data: give --src and --ref, or --recipe alone")


def load_model(
    path: Path | None, precision: Precision, pairs: list[tuple[str, str]], shortlist: bool, task: str | None
) -> ModelTranslator:
    """The model without guards; if none is given, an installed model for the languages of the pairs."""
    from regard.model_folder.registry import find_folder, models_for
    from regard.pipelines.model_translator import ModelTranslator
    from regard.text.language import detect_language

    if path is not None:
        folder = find_folder(path)
    else:
        sides = (" ".join(pair[side] for pair in pairs[:DETECTED_FROM]) for side in (0, 1))
        src_lang, tgt_lang = (detect_language(side).language or None for side in sides)
        folder = models_for(src_lang, tgt_lang)[0].folder
    way = ModelTranslator(folder, precision, shortlist=shortlist)
    return way if task is None else way.for_task(task)


def load_rival(
    path: Path, precision: Precision, pairs: list[tuple[str, str]], shortlist: bool, task: str | None
) -> ModelTranslator:
    """The model to compare with, for the same task if it has several."""
    way = load_model(path, precision, pairs, shortlist, None)
    return way.for_task(task) if task is not None and way.tasks else way


def translate_all(translator: ModelTranslator, pairs: list[tuple[str, str]], options: dict[str, Any]) -> list[str]:
    with progress_bar(f"translating with {translator.folder}", len(pairs)) as done:
        sources = [source for source, _ in pairs]
        return [one.text for one in translator.translate(sources, done=done, **decode_options(**options))]


def loss_of(translator: ModelTranslator, pairs: list[tuple[str, str]]) -> tuple[float | None, float | None]:
    """−log p per reference token, and perplexity, of the pairs that fit into the model."""
    sides = zip(*pairs, strict=True)
    encoded = translator.encode_src(next(sides)), translator.tokenizer.encode_tgt(next(sides))
    fits = [max(map(len, both)) <= translator.max_sentence_tokens for both in zip(*encoded, strict=True)]
    if left_out := fits.count(False):
        click.echo(
            f"the loss excludes {left_out:,} pairs longer than {translator.max_sentence_tokens:,} tokens", err=True
        )
    pairs = list(compress(pairs, fits))
    if not pairs:
        return None, None
    scored = translator.score([source for source, _ in pairs], [reference for _, reference in pairs])
    nll = -sum(one.log_prob for one in scored) / sum(len(one.token_log_probs) for one in scored)
    return nll, math.exp(min(nll, 700.0))


def readable(result: dict[str, Any]) -> str:
    lines = [f"{result['model']}: {result['sentences']:,} sentences"]
    for name, score in result["scores"].items():
        lines.append(f"  {name:<11}{score['score']:6.2f}   {score['signature']}")
    if result["loss"] is not None:
        lines.append(f"  {'loss':<11}{result['loss']:6.3f}   per reference token")
        lines.append(f"  {'perplexity':<11}{result['perplexity']:6.2f}")
    if "against" in result:
        lines.append(f"against {result['against']['model']}, paired bootstrap:")
        for row in result["against"]["bootstrap"]:
            verdict = "significant" if row["p_value"] < 0.05 else "not significant"
            lines.append(
                f"  {row['name']:<11}{row['first']:6.2f} : {row['second']:6.2f}   p = {row['p_value']:.3f}, {verdict}"
            )
    return "\n".join(lines)
