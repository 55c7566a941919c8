"""`regard translate`: translate text line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import (
    MAX_NOTES,
    complete_file,
    decode_options,
    load_translator,
    model_option,
    precision_option,
    progress_bar,
    read_blocks,
    read_lines,
)
from regard.cli.outputs import check_output, open_output
from regard.errors import ConfigError, NotTranslated

if TYPE_CHECKING:
    from regard.config import DecodeConfig, Precision
    from regard.pipelines.translator import Translation, Translator
    from regard.text.chinese_script import ChineseScript


@click.command("translate", short_help="Translate text, a file or standard input.")
@click.argument("text", required=False, shell_complete=complete_file)
@model_option
@precision_option
@click.option("--shortlist", is_flag=True, help="Search likely tokens only (see regard shortlist); approximate.")
@click.option(
    "--from", "src_lang", metavar="LANG", show_default="detected per line", help="Source language, such as zh."
)
@click.option(
    "--to", "tgt_lang", metavar="LANG", show_default="that of an installed model", help="Target language, such as en."
)
@click.option(
    "--script",
    type=click.Choice(["simplified", "traditional"]),
    show_default="the model's; traditional with --to zh-Hant, zh-TW, zh-HK, zh-MO",
    help="Script of Chinese translations.",
)
@click.option(
    "--guards/--no-guards",
    default=None,
    show_default="on, unless --model is given",
    help="Check and repair translations: repetition, copied source text, missing numbers and the like.",
)
@click.option("--beam", type=int, show_default="the model's, usually 4", help="Beam size; 1 is greedy search.")
@click.option("--n-best", type=click.IntRange(min=1), default=1, help="Number of translations per line, best first.")
@click.option(
    "--length-penalty", type=float, show_default="the model's, usually 0.6", help="Higher prefers longer translations."
)
@click.option("--sample", is_flag=True, help="Sample tokens at random instead of beam search.")
@click.option("--temperature", type=float, help="With --sample: lower is more deterministic.")
@click.option("--top-k", type=int, help="With --sample: sample from the k most probable tokens.")
@click.option("--top-p", type=float, help="With --sample: nucleus (top-p) sampling.")
@click.option("--seed", type=int, help="With --sample: random seed.")
@click.option("--no-repeat-ngram", type=int, metavar="N", help="Never repeat a sequence of N tokens.")
@click.option("--prefix", default="", help="Text that every translation must begin with.")
@click.option("--task", help="Task of a multi-task model, or a word of its name; '' for none.")
@click.option("--align", is_flag=True, help="With --json: add word alignment [i, j, word, word] from cross-attention.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: scores, tokens, alternatives.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Output file.", show_default="standard output")
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
    """Translate TEXT line by line: a text in quotes, a file, or - for standard input.

    Without --model, an installed model is selected for each line by its language (see regard models). Entities such
    as URLs, e-mail addresses, code and numbers are copied unchanged. Standard input is translated as it arrives.

    A line that no model translates is copied, a note on standard error says which and why, and the next lines are
    translated; the exit code is then 7. Input that is not UTF-8 ends the command with exit code 3.

    \b
    Examples:
      regard translate "我爱你"
      regard translate "I love you." --script traditional
      regard translate "Two dogs run." --model runs/multi30k-en-de/model
      regard translate input.txt -o output.txt --model MODEL
      cat input.txt | regard translate - --model MODEL --beam 8 --n-best 3 --json
    """
    if align and not as_json:
        raise ConfigError("--align needs --json")
    check_output(output)
    blocks = iter([read_lines(text)]) if sample else read_blocks(text)  # sampling numbers the lines from the first
    settings = {"source": src_lang, "to": tgt_lang, "script": script, "guards": guards, "shortlist": shortlist}
    translator = load_translator(model_path, precision, **settings)
    options = decode_options(**settle_search(own_settings(translator), sample, n_best, options))
    notes = Notes()
    with open_output(output) as write:
        for lines in blocks:
            title = f"translating from line {notes.lines + 1:,}" if notes.lines else "translating"
            with progress_bar(title, len(lines)) as done:
                found = translator.translate(lines, n_best=n_best, prefix=prefix, task=task, done=done, **options)
            if as_json:
                rows = [json.dumps(describe(translator, one, align), ensure_ascii=False) for one in found]
            else:
                rows = [text for one in found for text in best_texts(one, n_best)]
            write("".join(row + "\n" for row in rows))
            notes.show(found)
    notes.close()


def settle_search(decode: DecodeConfig, sample: bool, n_best: int, options: dict[str, Any]) -> dict[str, Any]:
    """The options, with those that follow from others; raises if they contradict each other."""
    if sample:
        if options["beam"] is not None:
            raise ConfigError("--beam and --sample cannot be combined")
        return {**options, "method": "sample"}
    if decode.method == "beam":
        for name in ("temperature", "top_k", "top_p", "seed"):
            if options[name] is not None:
                raise ConfigError(f"--{name.replace('_', '-')} needs --sample")
    if n_best <= (options["beam"] or decode.beam):
        return options
    if options["beam"] is not None:
        raise ConfigError(f"--n-best {n_best} needs --beam of at least {n_best}, not {options['beam']}")
    return {**options, "beam": n_best}


class Notes:
    """Prints notes about single lines on standard error, at most MAX_NOTES; counts the lines without translation."""

    def __init__(self) -> None:
        self.lines = 0
        self.notes = 0
        self.failed = 0

    def show(self, found: Sequence[Translation]) -> None:
        for one in found:
            self.lines += 1
            self.failed += one.failed
            if one.note:
                self.notes += 1
                if self.notes <= MAX_NOTES:
                    click.echo(f"line {self.lines}: {one.note}", err=True)

    def close(self) -> None:
        """Raises if there were lines that no model translates, so that the exit code says it."""
        if self.notes > MAX_NOTES:
            click.echo(f"and {self.notes - MAX_NOTES} more notes", err=True)
        if self.failed:
            were = "line was" if self.lines == 1 else "lines were"
            raise NotTranslated(
                f"{self.failed:,} of {self.lines:,} {were} copied without translation; see the notes above, and "
                "regard models for the languages that can be translated"
            )


def own_settings(translator: Translator) -> DecodeConfig:
    """The decoding settings of the given model; for installed models, the defaults."""
    from regard.config import DecodeConfig

    return DecodeConfig() if translator.folder is None else translator.translator_for().decode


def best_texts(translation: Translation, count: int) -> list[str]:
    """Exactly `count` texts, so that output lines can be counted; missing ones are empty."""
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
