"""`regard fill`: predict masked tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import at_line, complete_file, named_model_option, progress_bar, read_lines
from regard.cli.outputs import check_output, write_output

if TYPE_CHECKING:
    from regard.pipelines.text_encoder import FilledText


@click.command("fill", short_help="Predict masked tokens.")
@click.argument("text", required=False, shell_complete=complete_file)
@named_model_option
@click.option("--top", type=int, default=5, help="Number of candidates per mask.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: candidates with probabilities.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Output file.", show_default="standard output")
def command(text: str | None, model_path: Path, top: int, as_json: bool, output: Path | None) -> None:
    """Predict every [MASK] of TEXT: a text in quotes, a file, or - for standard input; line by line.

    Prints the text with the most probable tokens, then the candidates of each mask with their probabilities.

    \b
    Examples:
      regard fill "今天天气很[MASK]" --model MODEL
      regard fill "The capital of France is [MASK]." --top 10 --model MODEL
      cat lines.txt | regard fill - --json --model MODEL
    """
    check_output(output)
    lines = read_lines(text)
    from regard.pipelines.text_encoder import TextEncoder

    encoder = TextEncoder(model_path)
    encoder.check_mask()
    for number, line in enumerate(lines, start=1):  # check all lines before any work is done
        with at_line(text, number):
            encoder.find_masks(line)
    rows: list[str] = []
    with progress_bar("predicting", len(lines)) as done:
        for line in lines:
            found = encoder.fill(line, top)
            rows += [json.dumps(describe(found), ensure_ascii=False)] if as_json else shown(found)
            done(1)
    write_output("".join(row + "\n" for row in rows), output)


def shown(found: FilledText) -> list[str]:
    rows = [found.text]
    for number, mask in enumerate(found.masks, start=1):
        name = f"[MASK] {number}" if len(found.masks) > 1 else "[MASK]"
        rows.append(f"  {name}  " + "  ".join(f"{c.piece} {c.probability:.1%}" for c in mask.candidates))
    return rows


def describe(found: FilledText) -> dict[str, Any]:
    return {
        "source": found.source,
        "text": found.text,
        "masks": [
            [{"piece": c.piece, "text": c.text, "probability": c.probability} for c in mask.candidates]
            for mask in found.masks
        ],
    }
