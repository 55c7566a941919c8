"""`regard generate`: generate text with a language model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import decode_options, named_model_option, precision_option, read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config import Precision
    from regard.pipelines.text_generator import TextGenerator


@click.command("generate", short_help="Generate text.")
@click.argument("prompt", default="")
@named_model_option
@click.option("--max-tokens", type=int, default=200, help="Maximum number of tokens to generate.")
@click.option("--temperature", type=float, show_default="the model's, usually 1", help="Lower is more deterministic.")
@click.option("--top-k", type=int, help="Sample from the k most probable tokens; 1 is greedy decoding.")
@click.option("--top-p", type=float, help="Nucleus (top-p) sampling.")
@click.option("--seed", type=int, show_default="the model's, usually 1", help="Random seed.")
@click.option("--no-repeat-ngram", type=int, metavar="N", help="Never repeat a sequence of N tokens.")
@click.option("--n", "count", type=int, default=1, help="Number of independent samples.")
@precision_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per sample: tokens, log-probabilities.")
def command(
    prompt: str, model_path: Path, max_tokens: int, count: int, precision: Precision, as_json: bool, **options: Any
) -> None:
    """Generate a continuation of PROMPT: a text in quotes, or - for standard input; by default empty.

    The prompt and its continuation are printed as they are generated. Several samples are separated by a line ---.

    \b
    Examples:
      regard generate "ROMEO:" --model runs/gpt-shakespeare/model
      regard generate "五言四句：床前明月光" --model runs/gpt-tang-poems/model --temperature 0.8 --top-k 20
      regard generate - --model gpt2 --n 3 --json < beginning.txt
    """
    if prompt == "-":
        prompt = "\n".join(read_lines(prompt))
    if count < 1:
        raise ConfigError(f"--n must be at least 1, not {count}")
    from regard.pipelines.text_generator import TextGenerator

    generator = TextGenerator(model_path, precision)
    chosen = {"max_tokens": max_tokens, **decode_options(**options)}
    if count == 1 and not as_json:
        stream(generator, prompt, chosen)
        return
    for number, found in enumerate(generator.generate(prompt, n=count, **chosen)):
        if as_json:
            row = {"prompt": prompt, **dataclasses.asdict(found), "log_prob": found.log_prob}
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            click.echo(("---\n" if number else "") + (prompt + found.text).removesuffix("\n"))


def stream(generator: TextGenerator, prompt: str, options: dict[str, Any]) -> None:
    parts = generator.stream(prompt, **options)
    click.echo(prompt, nl=False)
    last = prompt
    for part in parts:
        click.echo(part, nl=False)
        last = part
    if not last.endswith("\n"):
        click.echo()
