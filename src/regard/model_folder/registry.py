"""The registry of installed models: the bundled ones and the user's own. Listing them needs no torch.

The user's models are the subfolders of the folder in the environment variable REGARD_MODELS, or that folder itself if
it is a model folder; without the variable, those in $XDG_DATA_HOME/regard/models (~/.local/share/regard/models). They
come before the bundled models. A damaged model is listed with the reason, and never selected.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from regard.config.models import TransformerConfig, TranslationConfig
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder.atomic import delete_abandoned
from regard.model_folder.files import MOST_SETTINGS, check_folder, has_file, read_file
from regard.model_folder.folder import CARD, CONFIG, SUMS, read_summary
from regard.model_folder.model_card import CardHead, read_head
from regard.text.language import same_language

VARIABLE = "REGARD_MODELS"
BUNDLED = Path(__file__).parents[1] / "bundled"
TRANSLATORS = tuple(kind.family for kind in get_args(TranslationConfig))
HOW_TO_GET_ONE = (
    "give a model folder with --model or REGARD_MODEL, or put one into the folder REGARD_MODELS; "
    "regard train and regard import write model folders, and regard models get downloads one"
)


@dataclass(frozen=True)
class InstalledModel:
    name: str  # of its folder
    folder: Path
    src_lang: str
    tgt_lang: str
    size: int = 0  # bytes of the files in SHA256SUMS, and of that
    bundled: bool = False
    head: CardHead = field(default_factory=CardHead)
    family: str = TransformerConfig.family
    problem: str = ""  # why it cannot be used

    def translates(self, src_lang: str | None, tgt_lang: str | None) -> bool:
        """Whether it translates at all, and in this direction; None is any language."""
        if self.problem or self.family not in TRANSLATORS:
            return False
        pairs = ((self.src_lang, src_lang), (self.tgt_lang, tgt_lang))
        return all(wanted is None or same_language(has, wanted) for has, wanted in pairs)


def own_models() -> Path:
    """The folder of the user's models."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "regard" / "models"


def installed_models() -> list[InstalledModel]:
    """All installed models, the user's before the bundled ones, sorted by name."""
    named, folder = os.environ.get(VARIABLE), own_models()
    if named and not os.path.lexists(folder):
        raise ConfigError(f"{VARIABLE} = {named}: there is no such folder; create it, or set {VARIABLE} to another")
    try:
        own = model_folders(folder) if os.path.lexists(folder) else []
    except ModelFolderError as error:
        raise ConfigError(f"{folder}: {error}; set {VARIABLE} to a folder of models") from None
    return [describe(path) for path in own] + [describe(path, bundled=True) for path in bundled_folders()]


def new_folder(name: str) -> Path:
    """Where a model of this name is to be installed; an error if there is one already."""
    if not name or Path(name).name != name or name.startswith("."):
        raise ConfigError(f"{name!r} cannot be the name of a model: it must be that of a folder")
    folder = own_models() / name
    if looks_like_model(own_models()):
        raise ConfigError(f"{VARIABLE} = {own_models()} is a single model: set it to a folder of models")
    if os.path.lexists(folder):
        raise ModelFolderError(f"{folder} exists already; remove it with: regard models remove {name}")
    return folder


def delete_half_removed(name: str) -> None:
    """Delete what a command left that was killed while it removed the model of this name."""
    if name and Path(name).name == name and own_models().is_dir():
        delete_abandoned(own_models() / name)


def find_own(name: str) -> Path:
    """The folder of an installed model that may be removed."""
    for model in installed_models():
        if model.name == name and not model.bundled:
            return model.folder
        if model.name == name:
            raise ConfigError(f"{name} comes with Regard and cannot be removed")
    raise ConfigError(f"no model {name!r} is installed; regard models lists the installed models")


def model_folders(folder: Path) -> list[Path]:
    """The folder itself or what in it may be a model; hidden folders are unfinished writes and are ignored."""
    check_folder(folder, "folder of models")
    if looks_like_model(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and is_meant(path))


def bundled_folders() -> list[Path]:
    return model_folders(BUNDLED) if BUNDLED.is_dir() else []


def looks_like_model(folder: Path) -> bool:
    return any(has_file(folder, name) for name in (CONFIG, SUMS))


def is_meant(path: Path) -> bool:
    """Whether this may be a model, however damaged: a folder with one of its files, or no readable folder."""
    try:
        check_folder(path)
    except ModelFolderError:
        return True
    return looks_like_model(path)


def describe(folder: Path, bundled: bool = False) -> InstalledModel:
    """The entry of a folder. Only damage that needs no checksums is found here, the rest when the model is loaded."""
    name = folder.name or folder.resolve().name  # "." has no name
    try:
        content, size = read_summary(folder)
        card = read_file(folder, CARD, MOST_SETTINGS) if has_file(folder, CARD) else b""
    except (ModelFolderError, OSError) as error:  # OSError: somebody is deleting it
        return InstalledModel(name, folder, "", "", bundled=bundled, problem=str(error))
    head, family = read_head(card.decode("utf-8", errors="replace")), content.model.family
    return InstalledModel(name, folder, content.src_lang, content.tgt_lang, size, bundled, head, family)


def models_for(src_lang: str | None, tgt_lang: str | None) -> list[InstalledModel]:
    """The models for a direction, the preferred one first; an error if there are none."""
    models = installed_models()
    found = [model for model in models if model.translates(src_lang, tgt_lang)]
    if not found:
        raise ConfigError(nothing_for(src_lang, tgt_lang, models))
    return found


def nothing_for(src_lang: str | None, tgt_lang: str | None, models: Sequence[InstalledModel]) -> str:
    there = ", ".join(f"{model.src_lang} → {model.tgt_lang}" for model in models if model.translates(None, None))
    wanted = f" for {src_lang or 'any language'} → {tgt_lang or 'any language'}" if src_lang or tgt_lang else ""
    other = "other " if there and not wanted else ""
    damaged = "".join(f"; {model.name} cannot be used: {model.problem}" for model in models if model.problem)
    return f"no {other}model is installed{wanted}{f' (there is {there})' if there else ''}: {HOW_TO_GET_ONE}{damaged}"


def find_folder(path: str | Path) -> Path:
    """The folder at this path, or of the installed model of this name."""
    path = Path(path)
    if path.exists() or len(path.parts) != 1:
        return path
    named = [model.folder for model in installed_models() if model.name == path.name]
    return named[0] if named else path
