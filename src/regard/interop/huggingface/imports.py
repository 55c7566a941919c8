"""Import of a Hugging Face folder as a model folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from regard.config import FamilyConfig
from regard.errors import ModelFolderError, RegardError
from regard.interop.huggingface.bert import import_bert
from regard.interop.huggingface.deepseek import import_deepseek
from regard.interop.huggingface.folder import HuggingFaceFolder, Imported, Say
from regard.interop.huggingface.gpt2 import import_gpt2
from regard.interop.huggingface.longformer import import_longformer
from regard.interop.huggingface.marian import import_marian
from regard.interop.huggingface.reformer import import_reformer
from regard.interop.huggingface.t5 import import_t5
from regard.interop.huggingface.vit import import_vit
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import read_description, write_model
from regard.model_folder.weights import check_finite
from regard.models.load import build_outline, check_shapes, parameter_shapes
from regard.tokenizers.read import check_tokenizer

KNOWN = ("bert", "deepseek_v3", "gpt2", "longformer", "marian", "mt5", "reformer", "t5", "vit")


def import_folder(
    source: Path,
    target: Path,
    say: Say = lambda text: None,
    trial: Callable[[Path], object] = lambda folder: None,
    allow_pickle: bool = False,
    origin: str = "",
) -> Imported:
    """Write the model of `source` to the new folder `target`; `say` receives messages for the user.

    `trial` uses the model before the folder gets its name (`pipelines/trial.py`); what it raises ends the import.
    `origin`: where the folder comes from, for the model card; empty: its name.
    """
    if target.exists():
        raise ModelFolderError(f"{target} exists already; name another folder")
    imported = convert(HuggingFaceFolder(source, say, allow_pickle))
    check_fit(imported.description.model, imported.weights, source)
    check_finite(imported.weights, source)
    with atomic_folder(target) as temporary:
        write_model(temporary, imported.description, imported.weights, card(origin or source.resolve().name, imported))
        try:
            check_tokenizer(source, read_description(temporary))
            trial(temporary)
        except RegardError as error:
            raise ModelFolderError(f"{source} was not imported: {error}".replace(str(temporary), str(target))) from None
    return imported


def convert(folder: HuggingFaceFolder) -> Imported:
    match folder.config.get("model_type"):
        case "marian":
            return import_marian(folder)
        case "t5" | "mt5":
            return import_t5(folder)
        case "bert":
            return import_bert(folder)
        case "longformer":
            return import_longformer(folder)
        case "gpt2":
            return import_gpt2(folder)
        case "reformer":
            return import_reformer(folder)
        case "vit":
            return import_vit(folder)
        case "deepseek_v3":
            return import_deepseek(folder)
        case None:
            raise ModelFolderError(f"{folder.config.where} has no model_type, so it does not describe a model")
        case other:
            raise ModelFolderError(
                f"{folder.path} has model_type {other!r}, which Regard does not support; it imports {', '.join(KNOWN)}"
            )


def check_fit(config: FamilyConfig, weights: Mapping[str, np.ndarray], source: Path) -> None:
    """Check that the weights are those of our model, by name and shape."""
    expected = parameter_shapes(build_outline(config, source))
    check_shapes(expected, {name: array.shape for name, array in weights.items()}, source)


def card(origin: str, imported: Imported) -> str:
    """The model card of an imported model."""
    described = imported.description
    pair = f"{described.src_lang or '?'} → {described.tgt_lang or '?'}"
    return (
        f"# {origin}\n\n"
        f"A model of the family {described.model.family}, imported from the Hugging Face format.\n"
        + (f"Languages: {pair}.\n" if described.src_lang or described.tgt_lang else "")
        + "Data, licence and scores: see where the folder comes from.\n"
    )
