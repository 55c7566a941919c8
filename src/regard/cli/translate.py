"""`regard translate`: text in, text out, as many lines as there were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import (
    check_output,
    decode_options,
    load_translator,
    model_option,
    precision_option,
    progress_bar,
    read_lines,
    write_output,
)
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import SearchPrecision
    from regard.translator import Translation, Translator


@click.command("translate", short_help="Translate text, a file or standard input.")
@click.argument("text", required=False)
@model_option
@precision_option
@click.option("--from", "src_lang", help="The language of the input; must be the model's.")
@click.option("--to", "tgt_lang", help="The language wanted; must be the model's.")
@click.option("--beam", type=int, help="Hypotheses kept in the search; 1 is greedy. [the model's, mostly 4]")
@click.option("--n-best", type=int, default=1, help="Give this many translations of each line, best first.")
@click.option("--length-penalty", type=float, help="Greater prefers longer output. [the model's, mostly 0.6]")
@click.option("--sample", is_flag=True, help="Draw words at random instead of searching for the likeliest.")
@click.option("--temperature", type=float, help="With --sample: below 1 is tamer, above 1 wilder.")
@click.option("--top-k", type=int, help="With --sample: from the k likeliest words only.")
@click.option("--top-p", type=float, help="With --sample: from the likeliest words that make up this share.")
@click.option("--seed", type=int, help="With --sample: the same seed gives the same words.")
@click.option("--no-repeat-ngram", type=int, help="No sequence of this many pieces twice.")
@click.option("--prefix", default="", help="What every translation must begin with.")
@click.option("--align", is_flag=True, help="With --json: [i, j, word, word] links from the cross-attention.")
@click.option("--json", "as_json", is_flag=True, help="An object a line: scores, tokens, alternatives.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write here instead of standard output.")
def command(
    text: str | None,
    model_path: Path | None,
    precision: SearchPrecision,
    src_lang: str | None,
    tgt_lang: str | None,
    n_best: int,
    sample: bool,
    prefix: str,
    align: bool,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Translate TEXT: words in quotes, a file, or - for standard input; line by line.

    \b
    Examples:
      regard translate "Two dogs run." --model runs/multi30k-en-de/model
      regard translate input.txt -o output.txt --model MODEL
      cat input.txt | regard translate - --model MODEL --beam 8 --n-best 3 --json
    """
    if align and not as_json:
        raise ConfigError("--align goes with --json")
    check_output(output)
    lines = read_lines(text)
    translator = load_translator(model_path, precision)
    check_languages(translator, src_lang, tgt_lang)
    if sample:
        options["method"] = "sample"
    elif translator.decode.method == "beam":
        for name in ("temperature", "top_k", "top_p", "seed"):
            if options[name] is not None:
                raise ConfigError(f"--{name.replace('_', '-')} goes with --sample")
    if not sample and n_best > (options["beam"] or translator.decode.beam):
        options["beam"] = n_best
    with progress_bar("translating", len(lines)) as done:
        found = translator.translate(lines, n_best=n_best, prefix=prefix, done=done, **decode_options(**options))
    if as_json:
        rows = [json.dumps(describe(translator, one, align), ensure_ascii=False) for one in found]
    else:
        rows = [text for one in found for text in best_texts(one, n_best)]
    write_output("".join(row + "\n" for row in rows), output)


def check_languages(translator: Translator, src_lang: str | None, tgt_lang: str | None) -> None:
    for option, wanted, has in (("--from", src_lang, translator.src_lang), ("--to", tgt_lang, translator.tgt_lang)):
        if wanted is not None and wanted.lower() != has.lower():
            one, other = (lang or "an unnamed language" for lang in (translator.src_lang, translator.tgt_lang))
            raise ConfigError(
                f"{option} {wanted}: {translator.folder} translates from {one} to {other}; "
                "choose another model with --model"
            )


def best_texts(translation: Translation, count: int) -> list[str]:
    """Always as many, so that a reader can count lines; where fewer were found, the rest are empty."""
    texts = [alternative.text for alternative in translation.alternatives]
    return texts + [""] * (count - len(texts))


def describe(translator: Translator, translation: Translation, align: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "score": translation.score,
        "alternatives": [
            {
                "text": a.text,
                "score": a.score,
                "log_prob": a.log_prob,
                "tokens": a.tokens,
                "token_log_probs": a.token_log_probs,
            }
            for a in translation.alternatives
        ],
    }
    if align:
        parts = translation.alternatives[0].parts
        found["alignment"] = translator.align_parts(parts)
    return found
