"""`regard export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from regard.errors import ConfigError


@click.group("export", short_help="Write a model for other programs.")
def command() -> None:
    """Write a model in another program's format.

    \b
    Examples:
      regard export ct2 runs/mine/model -o mine-ct2 --quantization int8
      regard export hf runs/mine/model -o mine-hf
    """


@command.command("ct2")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="The new folder.")
@click.option(
    "--quantization",
    type=click.Choice(["int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]),
    help="How to store the weights; without it, float32.",
)
def ct2(folder: Path, output: Path, quantization: str | None) -> None:
    """CTranslate2: FOLDER is a model folder; the tokenizer files are copied beside.

    \b
    Examples:
      regard export ct2 runs/mine/model -o mine-ct2 --quantization int8
    """
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        raise ConfigError("this needs the ctranslate2 package: pip install 'regard[ct2]'") from None
    from regard.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(folder, output, quantization)
    click.echo(f"wrote {output}")


@command.command("hf")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="The new folder.")
def hf(folder: Path, output: Path) -> None:
    """Hugging Face: FOLDER is a model folder of the paper's shape; it becomes a Marian model, as OPUS-MT's are.

    \b
    Examples:
      regard export hf runs/mine/model -o mine-hf
    """
    from regard.interop.huggingface.marian_export import export_marian

    export_marian(folder, output)
    click.echo(f"wrote {output}")
