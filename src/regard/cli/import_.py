"""`regard import`: convert a Hugging Face model to a model folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import", short_help="Import a Hugging Face model.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="Model folder to write.")
@click.option("--allow-pickle", is_flag=True, help="Read pytorch_model.bin, a pickle: tensors only, no code is run.")
def command(folder: Path, output: Path, allow_pickle: bool) -> None:
    """Convert FOLDER, a downloaded Hugging Face model (config.json, weights, tokenizer files), to a model folder.

    Weights are read from safetensors; a pickle (pytorch_model.bin) only with --allow-pickle. The imported model is
    tried before the folder gets its name.

    Supported: Marian (OPUS-MT), T5 and mT5, BERT, GPT-2, ViT, DeepSeek-V3. Nothing is downloaded.

    \b
    Examples:
      regard import opus-mt-en-de -o en-de
      regard translate "Two dogs run." --model en-de
      regard import bert-base-chinese -o bert
    """
    from regard.interop.huggingface.imports import import_folder
    from regard.pipelines.trial import try_model

    imported = import_folder(folder, output, lambda text: click.echo(text, err=True), try_model, allow_pickle)
    count = sum(array.size for array in imported.weights.values())
    click.echo(f"wrote {output}: {count:,} parameters; {imported.description.model.use}")
