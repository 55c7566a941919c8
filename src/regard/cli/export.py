"""`regard export`: convert a model to the format of another library."""

from __future__ import annotations

from pathlib import Path

import click

from regard.extras import require


@click.group("export", short_help="Convert a model to CTranslate2 or Hugging Face format.")
def command() -> None:
    """Convert a model to the format of another library.

    \b
    Examples:
      regard export ct2 runs/mine/model -o mine-ct2 --quantization int8
      regard export hf runs/mine/model -o mine-hf
    """


@command.command("ct2")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option(
    "--quantization",
    type=click.Choice(["int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]),
    show_default="float32",
    help="Number format of the weights.",
)
def ct2(folder: Path, output: Path, quantization: str | None) -> None:
    """Convert the model folder FOLDER to CTranslate2, with its tokenizer files.

    \b
    Examples:
      regard export ct2 runs/mine/model -o mine-ct2 --quantization int8
    """
    require("ctranslate2", "regard export ct2")
    from regard.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(folder, output, quantization)
    click.echo(f"wrote {output}")


@command.command("hf")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="Folder to write.")
def hf(folder: Path, output: Path) -> None:
    """Convert the model folder FOLDER to a Hugging Face Marian model, as those of OPUS-MT.

    \b
    Examples:
      regard export hf runs/mine/model -o mine-hf
    """
    from regard.interop.huggingface.marian_export import export_marian

    export_marian(folder, output)
    click.echo(f"wrote {output}")
