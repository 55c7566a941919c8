"""`regard score`: log-probabilities of given translations (forced decoding)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from regard.cli.inputs import complete_file, load_translator, model_option, progress_bar, read_lines
from regard.cli.outputs import check_output, write_output
from regard.errors import ConfigError, DataError


@click.command("score", short_help="Compute the log-probability of a translation.")
@click.argument("source", shell_complete=complete_file)
@click.argument("translation", shell_complete=complete_file)
@model_option
@click.option("--tokens", is_flag=True, help="Show the log-probability of every token.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Output file.", show_default="standard output")
def command(
    source: str, translation: str, model_path: Path | None, tokens: bool, as_json: bool, output: Path | None
) -> None:
    """Compute the log-probability of TRANSLATION given SOURCE: two texts in quotes, or two files line by line.

    \b
    Examples:
      regard score "我爱你。" "I love you." --tokens
      regard score "Two dogs run." "Zwei Hunde rennen." --model MODEL --tokens
      regard score test.en test.de --model MODEL --json -o scores.jsonl
    """
    if source == translation == "-":
        raise ConfigError("only one of SOURCE and TRANSLATION can be standard input")
    check_output(output)
    sources, translations = read_lines(source), read_lines(translation)
    if len(sources) != len(translations):
        raise DataError(
            f"{len(sources)} source lines but {len(translations)} translation lines; the numbers must be equal"
        )
    translator = load_translator(model_path)
    with progress_bar("scoring", len(sources)) as done:
        scored = translator.score(sources, translations, done)
    rows = []
    for original, one in zip(sources, scored, strict=True):
        if as_json:
            row = {"source": original, "translation": one.text, "log_prob": one.log_prob, "score": one.score}
            rows.append(
                json.dumps({**row, "tokens": one.tokens, "token_log_probs": one.token_log_probs}, ensure_ascii=False)
            )
        else:
            rows.append(f"{one.log_prob:.4f}\t{one.text}")
            if tokens:
                pairs = zip([*one.tokens, "</s>"], one.token_log_probs, strict=True)
                rows.extend(f"    {token:<16}{log_prob:9.4f}" for token, log_prob in pairs)
    write_output("".join(row + "\n" for row in rows), output)
