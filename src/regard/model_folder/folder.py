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
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import config as settings
from regard.config import setting
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder import weights as weights_file
from regard.model_folder.atomic import atomic_write
from regard.model_folder.files import (
    MOST_SETTINGS,
    MOST_TEXT,
    check_folder,
    check_name,
    digest_of,
    has_file,
    open_file,
    parse_file,
    read_file,
)
from regard.model_folder.weights import Header, StoredAs, check_types, read_header, write_weights

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


# Sizes of models, each of which is a dimension of some weight; and how many layers there are.
SIZES = (
    *("d_model", "n_heads", "d_ff", "head_size", "value_size", "rotary_size", "kv_rank", "q_rank", "n_buckets"),
    *("vocab_size", "src_vocab_size", "tgt_vocab_size", "n_labels", "n_segments", "image_size", "patch_size"),
)
STACKS = ("n_layers", "n_encoder_layers", "n_decoder_layers")
MOST_TENSORS = 50_000
SUM = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """What config.json has."""

    format_version: int = setting(low=1)
    model: settings.FamilyConfig
    decode: settings.DecodeConfig
    src_lang: str = setting(max_length=100)
    tgt_lang: str = setting(max_length=100)
    lowercase: bool
    tasks: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


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
    sums = check_sums(folder)
    content = parse_description(folder, read_listed(folder, CONFIG, sums, MOST_SETTINGS))
    description = ModelDescription(
        model=content.model,
        decode=content.decode,
        src_lang=content.src_lang,
        tgt_lang=content.tgt_lang,
        lowercase=content.lowercase,
        tokenizer=read_tokenizer(folder, content.model, sums),
        tasks=content.tasks,
        labels=content.labels,
    )
    check_header(folder, content.model)
    return description


def parse_description(folder: Path, content: bytes) -> FolderSettings:
    """The settings in a config.json, every one of them of the right kind."""
    path = folder / CONFIG
    tree = parse_file(content, path)
    check_version(folder, tree)
    try:
        found = settings.build(FolderSettings, tree, "")
    except ConfigError as error:
        raise ModelFolderError(f"{path} does not describe a model: {error}") from None
    for name in ("src_lang", "tgt_lang"):
        if not getattr(found, name).isprintable():
            raise ModelFolderError(f"{path} does not describe a model: {name} has characters that cannot be printed")
    n_labels = getattr(found.model, "n_labels", len(found.labels))
    if found.labels and len(found.labels) != n_labels:
        raise ModelFolderError(f"{path} has {len(found.labels)} labels, but model.n_labels is {n_labels}")
    return found


def read_tokenizer(folder: Path, model: settings.FamilyConfig, sums: Mapping[str, str]) -> dict[str, bytes]:
    return {name: read_listed(folder, name, sums, MOST_TEXT) for name in tokenizer_names(folder, model, sums)}


def tokenizer_names(folder: Path, model: settings.FamilyConfig, sums: Mapping[str, str]) -> tuple[str, ...]:
    """The tokenizer's files. Only what is in SHA256SUMS counts: a file that was added later is not the model's."""
    for names in TOKENIZER_FILES:
        if sums.keys() >= set(names):
            return names
    if not model.needs_tokenizer:
        return ()
    known = "; ".join(" and ".join(names) for names in TOKENIZER_FILES)
    raise ModelFolderError(f"{folder} is not a valid model folder: it has no tokenizer; expected are {known}")


def check_header(folder: Path, model: settings.FamilyConfig) -> Header:
    """The header of the weights, which must be able to hold a model of these sizes; no memory is asked for yet.

    Every size of a model is that of some tensor, and every layer has tensors of its own. So settings that ask for more
    than the file has are refused before anybody builds ten million layers.
    """
    header, path = read_header(folder, WEIGHTS), folder / CONFIG
    check_types(header, folder / WEIGHTS)
    sizes = {name: getattr(model, name, 0) for name in SIZES}
    for name, size in sizes.items():
        if isinstance(size, int) and size > header.numbers:
            raise ModelFolderError(
                f"{path}: model.{name} = {size:,}, but {WEIGHTS} has only {header.numbers:,} numbers; get another copy "
                f"of the folder"
            )
    layers = sum(getattr(model, name, 0) for name in STACKS)
    count = len(header.weights)
    if layers > count or count > MOST_TENSORS:
        raise ModelFolderError(
            f"{path} asks for {layers:,} layers, but {WEIGHTS} has {count:,} tensors (the most is "
            f"{MOST_TENSORS:,}); get another copy of the folder"
        )
    return header


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Every weight, bf16 and int8 as float32; NaN and infinite ones are refused."""
    check_types(read_header(folder, WEIGHTS), folder / WEIGHTS)
    return weights_file.read_weights(folder, WEIGHTS)


def map_weights(folder: Path, model: settings.FamilyConfig) -> dict[str, np.ndarray]:
    """Every weight as it is stored, memory-mapped: bf16 as uint16, int8 beside its scales; NaN and infinite ones are
    refused."""
    check_header(folder, model)
    return weights_file.map_weights(folder, WEIGHTS)


def read_shortlist(folder: Path) -> bytes | None:
    """The contents of the folder's shortlist; a file without a checksum is from an interrupted write and is ignored."""
    sums = listed_sums(folder)
    return read_listed(folder, SHORTLIST, sums, MOST_TEXT) if SHORTLIST in sums else None


def write_shortlist(folder: Path, content: bytes) -> None:
    """Add a shortlist to a model folder, which is valid at every moment, also if the process is killed."""
    sums = {name: expected for name, expected in listed_sums(folder).items() if name != SHORTLIST}
    if (folder / SHORTLIST).exists():  # the checksum of the old file must not be listed with the new file
        write_sums(folder, sums)
    atomic_write(folder / SHORTLIST, content)
    write_sums(folder, {**sums, SHORTLIST: digest(folder / SHORTLIST)})


def listed_sums(folder: Path) -> dict[str, str]:
    """The checksum of each file, as SHA256SUMS lists it."""
    path = folder / SUMS
    text = read_file(folder, SUMS, MOST_SETTINGS).decode("utf-8", errors="replace")
    found: dict[str, str] = {}
    for line in filter(None, text.splitlines()):
        expected, _, name = line.partition("  ")
        if not SUM.fullmatch(expected) or not name:
            raise ModelFolderError(f"{path} is damaged; copy the folder again")
        check_name(name, path)
        if name in found:
            raise ModelFolderError(f"{path} names {name} twice; copy the folder again")
        found[name] = expected
    if {CONFIG, WEIGHTS} - found.keys():
        raise ModelFolderError(f"{path} is damaged; copy the folder again")
    return found


def read_listed(folder: Path, name: str, sums: Mapping[str, str], most: int) -> bytes:
    """The contents of a listed file; the bytes that are returned are the ones that were checked."""
    content = read_file(folder, name, most)
    check_digest(folder, name, sums, hashlib.sha256(content).hexdigest())
    return content


def check_digest(folder: Path, name: str, sums: Mapping[str, str], found: str) -> None:
    if found != sums[name]:
        raise ModelFolderError(f"{folder / name} was altered or damaged: it does not match {SUMS}")


def write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    atomic_write(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())


def check_sums(folder: Path) -> dict[str, str]:
    """The checksums of a folder; raises if the folder is missing, incomplete or altered."""
    sums = check_files(folder)
    for name in sums:
        check_digest(folder, name, sums, digest_of(folder, name))
    return sums


def check_files(folder: Path) -> dict[str, str]:
    """The expected checksum of each file; raises if the folder is missing or incomplete."""
    check_folder(folder)
    if not has_file(folder, SUMS):
        raise ModelFolderError(f"{folder} is not a model folder: it has no {SUMS}{folder_hint(folder)}")
    sums = listed_sums(folder)
    for name in sums:
        open_file(folder, name).close()
    return sums


def folder_hint(folder: Path) -> str:
    """A hint on what a folder without checksums may be, and what to do."""
    if (folder / "checkpoints").is_dir():
        return f"; it is a run: its model is {folder / 'model'} once training has ended, or one of its checkpoints"
    if (folder / CONFIG).is_file():
        return "; copy the folder again, or, if it is a Hugging Face model, convert it with regard import"
    return ""


def read_summary(folder: Path) -> tuple[FolderSettings, int]:
    """The settings and the size in bytes, after every check that needs no checksum."""
    sums = check_files(folder)
    content = parse_description(folder, read_file(folder, CONFIG, MOST_SETTINGS))
    tokenizer_names(folder, content.model, sums)
    check_header(folder, content.model)
    return content, sum((folder / name).stat().st_size for name in (*sums, SUMS))


def check_version(folder: Path, content: Any) -> None:
    version = content.get("format_version") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFolderError(f"{folder / CONFIG} is not a model's config: it has no format_version")
    if version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{folder} is of format {version}; this version of Regard reads up to {FORMAT_VERSION}. Update Regard."
        )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
