"""`regard import`: a Hugging Face folder as a model folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import", short_help="Bring in a Hugging Face model.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="The new model folder.")
def command(folder: Path, output: Path) -> None:
    """Bring in FOLDER, a model as it is published on the Hugging Face hub: config.json, weights, tokenizer files.

    Marian (all of OPUS-MT), T5 and mT5, BERT, GPT-2, ViT, DeepSeek-V3. Nothing is fetched: download the folder first.

    \b
    Examples:
      regard import opus-mt-en-de -o en-de
      regard translate "Two dogs run." --model en-de
      regard import bert-base-chinese -o bert
    """
    from regard.interop.huggingface.imports import import_folder
    from regard.models.build import use_of

    imported = import_folder(folder, output, lambda text: click.echo(text, err=True))
    count = sum(array.size for array in imported.weights.values())
    click.echo(f"wrote {output}: {count:,} parameters; {use_of(imported.description.model)}")
