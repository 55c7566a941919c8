"""Import of a Hugging Face folder as a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from regard.config import FamilyConfig, build, to_dict
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.bert import import_bert
from regard.interop.huggingface.deepseek import import_deepseek
from regard.interop.huggingface.folder import HuggingFaceFolder, Imported, Say
from regard.interop.huggingface.gpt2 import import_gpt2
from regard.interop.huggingface.marian import import_marian
from regard.interop.huggingface.t5 import import_t5
from regard.interop.huggingface.vit import import_vit
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model

KNOWN = ("bert", "deepseek_v3", "gpt2", "marian", "mt5", "t5", "vit")


def import_folder(source: Path, target: Path, say: Say = lambda text: None) -> Imported:
    """Write the model of `source` to the new folder `target`; `say` receives messages for the user."""
    if target.exists():
        raise ModelFolderError(f"{target} exists already; name another folder")
    imported = convert(HuggingFaceFolder(source, say))
    check_settings(source, imported.description)
    check_fit(imported.description.model, imported.weights)
    with atomic_folder(target) as temporary:
        write_model(temporary, imported.description, imported.weights, card(source, imported))
    return imported


def convert(folder: HuggingFaceFolder) -> Imported:
    match folder.config.get("model_type"):
        case "marian":
            return import_marian(folder)
        case "t5" | "mt5":
            return import_t5(folder)
        case "bert":
            return import_bert(folder)
        case "gpt2":
            return import_gpt2(folder)
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


def check_settings(source: Path, description: ModelDescription) -> None:
    """Refuse settings outside Regard's ranges: the written folder must be readable."""
    try:
        for name, settings in (("model", description.model), ("decode", description.decode)):
            build(type(settings), to_dict(settings), name)
    except ConfigError as error:
        raise ModelFolderError(f"{source} has settings that Regard does not support: {error}") from None


def check_fit(config: FamilyConfig, weights: Mapping[str, np.ndarray]) -> None:
    """Check that the weights are those of our model, by name and shape."""
    with torch.device("meta"):
        model = build_model(config, initialise=False)
    wanted = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    given = {name: tuple(array.shape) for name, array in weights.items()}
    wrong = sorted(name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFolderError(
            f"the weights do not fit the settings: {name} is {given.get(name, 'missing')}, but config.json implies "
            f"{wanted.get(name, 'none')} ({len(wrong)} mismatches)"
        )


def card(source: Path, imported: Imported) -> str:
    """The model card of an imported model."""
    described = imported.description
    pair = f"{described.src_lang or '?'} → {described.tgt_lang or '?'}"
    return (
        f"# {source.resolve().name}\n\n"
        f"A model of the family {described.model.family}, imported from a Hugging Face folder of that name.\n"
        + (f"Languages: {pair}.\n" if described.src_lang or described.tgt_lang else "")
        + "Data, licence and scores: see where the folder comes from.\n"
    )
