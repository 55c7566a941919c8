"""`regard generate`: a text in, what may follow it out, as it is written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import decode_options, named_model_option, read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.pipelines.text_generator import TextGenerator


@click.command("generate", short_help="Go on with a text.")
@click.argument("prompt", default="")
@named_model_option
@click.option("--max-tokens", type=int, default=200, help="The most tokens to write. [200]")
@click.option("--temperature", type=float, help="Below 1 is tamer, above 1 wilder. [the model's, mostly 1]")
@click.option("--top-k", type=int, help="From the k likeliest tokens only; 1 always takes the likeliest.")
@click.option("--top-p", type=float, help="From the likeliest tokens that make up this share.")
@click.option("--seed", type=int, help="The same seed gives the same text. [the model's, mostly 1]")
@click.option("--no-repeat-ngram", type=int, help="No sequence of this many tokens twice.")
@click.option("--n", "count", type=int, default=1, help="Write so many texts, each drawn for itself.")
@click.option("--json", "as_json", is_flag=True, help="An object a text, with the tokens and their probabilities.")
def command(prompt: str, model_path: Path, max_tokens: int, count: int, as_json: bool, **options: Any) -> None:
    """Go on with PROMPT: words in quotes, or - for standard input; without it the text begins from nothing.

    The text is printed with its prompt, as it is written; of several texts, a line with --- stands between.

    \b
    Examples:
      regard generate "ROMEO:" --model runs/gpt-shakespeare/model
      regard generate "五言四句：床前明月光" --model runs/gpt-tang-poems/model --temperature 0.8 --top-k 20
      regard generate - --model gpt2 --n 3 --json < beginning.txt
    """
    if prompt == "-":
        prompt = "\n".join(read_lines(prompt))
    if count < 1:
        raise ConfigError(f"--n {count} is too few; the least is 1")
    from regard.pipelines.text_generator import TextGenerator

    writer = TextGenerator(model_path)
    chosen = {"max_tokens": max_tokens, **decode_options(**options)}
    if count == 1 and not as_json:
        stream(writer, prompt, chosen)
        return
    for number, found in enumerate(writer.write(prompt, n=count, **chosen)):
        if as_json:
            row = {"prompt": prompt, **dataclasses.asdict(found), "log_prob": found.log_prob}
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            click.echo(("---\n" if number else "") + (prompt + found.text).removesuffix("\n"))


def stream(writer: TextGenerator, prompt: str, options: dict[str, Any]) -> None:
    parts = writer.stream(prompt, **options)
    click.echo(prompt, nl=False)
    last = prompt
    for part in parts:
        click.echo(part, nl=False)
        last = part
    if not last.endswith("\n"):
        click.echo()
