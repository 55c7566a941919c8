"""The model folder: reading, checking and writing, without torch and without pickle.

    config.json           format version, model config, languages, decoding settings
    weights.safetensors   every parameter once, in float32 or bf16 (regard.model_folder.weights)
    tokenizer.model       or source.model and target.model, or the other files in TOKENIZER_FILES
    README.md             the model card: data, licence, scores
    probes.safetensors    attention history of the training (train/probes.py); optional
    shortlist.safetensors lexical shortlist (decode/shortlist.py); optional
    SHA256SUMS            checksums of all of these

A checkpoint is a model folder with a subfolder `training/`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import config as settings
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder import weights as weights_file
from regard.model_folder.atomic import atomic_write
from regard.model_folder.weights import StoredAs, is_whole, write_weights

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD, SUMS = "config.json", "weights.safetensors", "README.md", "SHA256SUMS"
PROBES, SHORTLIST = "probes.safetensors", "shortlist.safetensors"
# The files of a tokenizer: those of the first entry that is complete in the folder.
TOKENIZER_FILES: tuple[tuple[str, ...], ...] = (
    ("tokenizer.model",),
    ("source.model", "target.model"),
    ("source.spm", "target.spm", "vocab.json", "target_vocab.json"),
    ("source.spm", "target.spm", "vocab.json"),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("characters.txt",),
)


@dataclass(frozen=True)
class ModelDescription:
    """The contents of a model folder, except the weights and the card."""

    model: settings.FamilyConfig
    decode: settings.DecodeConfig
    src_lang: str
    tgt_lang: str
    lowercase: bool
    tokenizer: Mapping[str, bytes]  # file name → contents
    tasks: tuple[str, ...] = ()  # source prefixes that select a task: T5's prefixes, Marian's >>de<<
    labels: tuple[str, ...] = ()  # class names of a classifier


def write_model(
    folder: Path,
    description: ModelDescription,
    weights: Mapping[str, np.ndarray],
    card: str,
    probes: bytes | None = None,
    stored_as: StoredAs = "float32",
) -> None:
    """Write the files of a model into an existing empty folder, usually one from `atomic.atomic_folder`."""
    content = {
        "format_version": FORMAT_VERSION,
        "src_lang": description.src_lang,
        "tgt_lang": description.tgt_lang,
        "lowercase": description.lowercase,
        **({"tasks": list(description.tasks)} if description.tasks else {}),
        **({"labels": list(description.labels)} if description.labels else {}),
        "model": settings.to_dict(description.model),
        "decode": settings.to_dict(description.decode),
    }
    (folder / CONFIG).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    for name, proto in description.tokenizer.items():
        (folder / name).write_bytes(proto)
    (folder / CARD).write_text(card, "utf-8")
    write_weights(folder / WEIGHTS, weights, stored_as)
    names = [CONFIG, *description.tokenizer, CARD, WEIGHTS]
    if probes is not None:
        (folder / PROBES).write_bytes(probes)
        names.append(PROBES)
    sums = [f"{digest(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / SUMS).write_text("".join(sums), "utf-8")


def read_description(folder: Path) -> ModelDescription:
    """The folder's settings and tokenizer, after every file has been checked against SHA256SUMS."""
    check_sums(folder)
    try:
        content = load_json(folder / CONFIG)
    except ValueError as error:
        raise ModelFolderError(f"{folder / CONFIG} is not JSON: {error}") from None
    check_version(folder, content)
    try:
        model = settings.convert(settings.FamilyConfig, content["model"], "model")
        decode = settings.build(settings.DecodeConfig, content["decode"], "decode")
        tasks = settings.convert(tuple[str, ...], content.get("tasks", ()), "tasks")
        labels = settings.convert(tuple[str, ...], content.get("labels", ()), "labels")
        languages = content["src_lang"], content["tgt_lang"]
        tokenizer = read_tokenizer(folder, model)
        return ModelDescription(model, decode, *languages, content["lowercase"], tokenizer, tasks, labels)
    except KeyError as error:
        raise ModelFolderError(f"{folder / CONFIG} is not a model's config: it has no {error.args[0]}") from None
    except (ConfigError, OSError) as error:
        raise ModelFolderError(f"{folder} is not a valid model folder: {error}") from None


def read_tokenizer(folder: Path, model: settings.FamilyConfig) -> dict[str, bytes]:
    for names in TOKENIZER_FILES:
        if all((folder / name).is_file() for name in names):
            return {name: (folder / name).read_bytes() for name in names}
    if not model.needs_tokenizer:
        return {}
    known = "; ".join(" and ".join(names) for names in TOKENIZER_FILES)
    raise ModelFolderError(f"{folder} is not a valid model folder: it has no tokenizer; expected are {known}")


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError

    try:
        return weights_file.read_weights(folder / WEIGHTS)
    except SafetensorError as error:
        raise ModelFolderError(f"{folder / WEIGHTS} cannot be read: {error}") from None


def read_shortlist(folder: Path) -> bytes | None:
    """The contents of the folder's shortlist. A file without a checksum is from an interrupted write and is ignored."""
    return (folder / SHORTLIST).read_bytes() if SHORTLIST in listed_sums(folder) else None


def write_shortlist(folder: Path, content: bytes) -> None:
    """Add a shortlist to a model folder, which is valid at every moment, also if the process is killed."""
    sums = {name: expected for name, expected in listed_sums(folder).items() if name != SHORTLIST}
    if (folder / SHORTLIST).exists():  # the checksum of the old file must not be listed with the new file
        write_sums(folder, sums)
    atomic_write(folder / SHORTLIST, content)
    write_sums(folder, {**sums, SHORTLIST: digest(folder / SHORTLIST)})


def listed_sums(folder: Path) -> dict[str, str]:
    """The checksum of each file, for a folder that has been checked."""
    lines = (folder / SUMS).read_text("utf-8").splitlines()
    return {name: expected for expected, name in (line.split("  ", 1) for line in lines if line)}


def write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    atomic_write(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())


def check_sums(folder: Path) -> None:
    """Raise if the folder is missing, incomplete or altered."""
    try:
        for name, expected in check_files(folder).items():
            if digest(folder / name) != expected:
                raise ModelFolderError(f"{folder / name} was altered or damaged: it does not match {SUMS}")
    except OSError as error:
        raise ModelFolderError(f"{folder} cannot be read: {error}") from None


def check_files(folder: Path) -> dict[str, str]:
    """The expected checksum of each file; raises if the folder is missing or incomplete."""
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder at {folder}")
    if not (folder / SUMS).is_file():
        raise ModelFolderError(f"{folder} is not a model folder: it has no {SUMS}{what_else(folder)}")
    text = (folder / SUMS).read_text("utf-8", errors="replace")
    listed = [line.split("  ", 1) for line in text.splitlines() if line]
    if not all(len(entry) == 2 for entry in listed) or {CONFIG, WEIGHTS} - {entry[-1] for entry in listed}:
        raise ModelFolderError(f"{folder / SUMS} is damaged; copy the folder again")
    for _, name in listed:
        if not (folder / name).is_file():
            raise ModelFolderError(f"{folder} is incomplete: {name} is missing; copy the folder again")
    return {name: expected for expected, name in listed}


def what_else(folder: Path) -> str:
    """A hint on what a folder without checksums may be, and what to do."""
    if (folder / "checkpoints").is_dir():
        return f"; it is a run: its model is {folder / 'model'} once training has ended, or one of its checkpoints"
    if (folder / CONFIG).is_file():
        return "; copy the folder again, or, if it is a Hugging Face model, convert it with regard import"
    return ""


def glance_at(folder: Path) -> Any:
    """The contents of config.json, after a check of file names and lengths; no checksum is computed."""
    check_files(folder)
    content = load_json(folder / CONFIG)
    check_version(folder, content)
    if not is_whole(folder / WEIGHTS):
        raise ModelFolderError(
            f"{folder / WEIGHTS} is damaged: its length is not the one in its header; copy the folder again"
        )
    return content


def check_version(folder: Path, content: Any) -> None:
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ModelFolderError(f"{folder / CONFIG} is not a model's config: it has no format_version")
    if version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{folder} is of format {version}; this version of Regard reads up to {FORMAT_VERSION}. Update Regard."
        )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))
