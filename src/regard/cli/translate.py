"""`regard translate`: text in, text out, as many lines as there were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import (
    MOST_NOTES,
    check_output,
    complete_file,
    decode_options,
    load_translator,
    model_option,
    precision_option,
    progress_bar,
    read_blocks,
    read_lines,
    write_output,
)
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import DecodeConfig, Precision
    from regard.pipelines.translator import Translation, Translator
    from regard.text.chinese_script import ChineseScript


@click.command("translate", short_help="Translate text, a file or standard input.")
@click.argument("text", required=False, shell_complete=complete_file)
@model_option
@precision_option
@click.option("--shortlist", is_flag=True, help="Search among likely words only; see regard shortlist. Not exact.")
@click.option("--from", "src_lang", help="The language of the input, such as zh. [guessed from each line's script]")
@click.option("--to", "tgt_lang", help="The language wanted, such as en. [what an installed model gives]")
@click.option(
    "--script",
    type=click.Choice(["simplified", "traditional"]),
    help="The characters of Chinese translations. [the model's; traditional with --to zh-Hant, zh-TW, zh-HK, zh-MO]",
)
@click.option(
    "--guards/--no-guards",
    default=None,
    help="Look for loops, copies, lost numbers and the like before answering. [on, unless --model is given]",
)
@click.option("--beam", type=int, help="Hypotheses kept in the search; 1 is greedy. [the model's, mostly 4]")
@click.option(
    "--n-best", type=click.IntRange(min=1), default=1, help="Give this many translations of each line, best first."
)
@click.option("--length-penalty", type=float, help="Greater prefers longer output. [the model's, mostly 0.6]")
@click.option("--sample", is_flag=True, help="Draw words at random instead of searching for the likeliest.")
@click.option("--temperature", type=float, help="With --sample: below 1 is tamer, above 1 wilder.")
@click.option("--top-k", type=int, help="With --sample: from the k likeliest words only.")
@click.option("--top-p", type=float, help="With --sample: from the likeliest words that make up this share.")
@click.option("--seed", type=int, help="With --sample: the same seed gives the same words.")
@click.option("--no-repeat-ngram", type=int, help="No sequence of this many pieces twice.")
@click.option("--prefix", default="", help="What every translation must begin with.")
@click.option("--task", help="Of a model with several tasks, the one wanted, or a word of it; '' for none.")
@click.option("--align", is_flag=True, help="With --json: [i, j, word, word] links from the cross-attention.")
@click.option("--json", "as_json", is_flag=True, help="An object a line: scores, tokens, alternatives.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write here instead of standard output.")
def command(
    text: str | None,
    model_path: Path | None,
    precision: Precision,
    shortlist: bool,
    src_lang: str | None,
    tgt_lang: str | None,
    script: ChineseScript | None,
    guards: bool | None,
    n_best: int,
    sample: bool,
    prefix: str,
    task: str | None,
    align: bool,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Translate TEXT: words in quotes, a file, or - for standard input; line by line, each as it comes.

    Without --model, each line goes to an installed model that reads its language (regard models lists them). What is
    the same in every language, such as addresses, code and numbers, is kept.

    \b
    Examples:
      regard translate "我爱你"
      regard translate "I love you." --script traditional
      regard translate "Two dogs run." --model runs/multi30k-en-de/model
      regard translate input.txt -o output.txt --model MODEL
      cat input.txt | regard translate - --model MODEL --beam 8 --n-best 3 --json
    """
    if align and not as_json:
        raise ConfigError("--align goes with --json")
    check_output(output)
    # Samples are counted from the first line, and a file is written whole; all else is answered as soon as it is read.
    blocks = [read_lines(text)] if sample or output else read_blocks(text)
    wishes = {"source": src_lang, "to": tgt_lang, "script": script, "guards": guards, "shortlist": shortlist}
    translator = load_translator(model_path, precision, **wishes)
    options = decode_options(**settle_search(own_settings(translator), sample, n_best, options))
    notes = Notes()
    for lines in blocks:
        with progress_bar("translating", len(lines)) as done:
            found = translator.translate(lines, n_best=n_best, prefix=prefix, task=task, done=done, **options)
        if as_json:
            rows = [json.dumps(describe(translator, one, align), ensure_ascii=False) for one in found]
        else:
            rows = [text for one in found for text in best_texts(one, n_best)]
        write_output("".join(row + "\n" for row in rows), output)
        notes.say(found)
    notes.end()


def settle_search(decode: DecodeConfig, sample: bool, n_best: int, options: dict[str, Any]) -> dict[str, Any]:
    """The options with those that follow from others; raise where they contradict each other."""
    if sample:
        if options["beam"] is not None:
            raise ConfigError("--beam is for searching; with --sample nothing is searched")
        return {**options, "method": "sample"}
    if decode.method == "beam":
        for name in ("temperature", "top_k", "top_p", "seed"):
            if options[name] is not None:
                raise ConfigError(f"--{name.replace('_', '-')} goes with --sample")
    if n_best <= (options["beam"] or decode.beam):
        return options
    if options["beam"] is not None:
        raise ConfigError(f"a beam of {options['beam']} finds fewer than {n_best} translations: raise --beam")
    return {**options, "beam": n_best}


class Notes:
    """About single lines, on standard error; not all of them, where there are many."""

    def __init__(self) -> None:
        self.lines = 0
        self.notes = 0

    def say(self, found: Sequence[Translation]) -> None:
        for one in found:
            self.lines += 1
            if one.note:
                self.notes += 1
                if self.notes <= MOST_NOTES:
                    click.echo(f"line {self.lines}: {one.note}", err=True)

    def end(self) -> None:
        if self.notes > MOST_NOTES:
            click.echo(f"and {self.notes - MOST_NOTES} more", err=True)


def own_settings(translator: Translator) -> DecodeConfig:
    """How a named model searches by itself; installed ones do as anybody does."""
    from regard.config import DecodeConfig

    return DecodeConfig() if translator.folder is None else translator.translator_for().decode


def best_texts(translation: Translation, count: int) -> list[str]:
    """Always as many, so that a reader can count lines; where fewer were found, the rest are empty."""
    texts = [alternative.text for alternative in translation.alternatives]
    return texts + [""] * (count - len(texts))


def describe(translator: Translator, translation: Translation, align: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "from": translation.src_lang,
        "to": translation.tgt_lang,
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
    if translation.note:
        found["note"] = translation.note
    if align:
        found["alignment"] = translator.align_parts(translation)
    return found
