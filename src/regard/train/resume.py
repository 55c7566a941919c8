"""What is found in a run that is to be resumed: the last good checkpoint, and what changed since it was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.config import CorpusConfig, DataConfig, RunConfig
from regard.data.corpus import corpus_name
from regard.data.identity import identity
from regard.errors import RunError
from regard.model_folder.checked_json import DamagedFileError
from regard.train.arithmetic import SETTINGS, Arithmetic, arithmetic_of, changes, why_no_kernels
from regard.train.checkpoint import find_damage, read_arithmetic
from regard.train.reports import Listener
from regard.train.run_folder import FORMER, RunFolder

Change = tuple[str, Any, Any]  # of a setting: its name, before, after


def last_good_step(folder: RunFolder, listener: Listener) -> int | None:
    """The newest checkpoint that is whole; damaged ones after it are set aside. None: there is no checkpoint."""
    damaged: dict[int, str] = {}
    for step in reversed(folder.saved_steps()):
        if found := find_damage(folder.checkpoint(step)):
            damaged[step] = found
            continue
        for bad, reason in damaged.items():
            listener.message(f"damaged checkpoint: {reason}; it is set aside as {folder.set_aside(bad)}")
        return step
    if damaged:
        lines = [
            f"{folder.path} cannot be resumed: none of its checkpoints is whole. Restore one from a copy, or start a "
            "new run with --run FOLDER",
            *damaged.values(),
        ]
        raise RunError("\n  ".join(lines))
    return None


def check_arithmetic(
    checkpoint: Path, run: RunConfig, changed: list[Change], allow_different: bool, listener: Listener
) -> None:
    """Refuse other arithmetic than the checkpoint's, unless a changed setting or the caller asks for it."""
    before, now = read_arithmetic(checkpoint), arithmetic_of(run.train)
    if before is None:
        listener.message(
            f"{checkpoint} was written by an earlier version, which did not record what computed it: {describe(now)} "
            "is taken to be the same, and recorded from here on"
        )
        return
    found = changes(before, now)
    asked = {setting for setting, _, _ in changed}
    silent = [text for name, text in found.items() if SETTINGS.get(name) not in asked]
    if silent and not allow_different:
        raise RunError(refusal(checkpoint, silent))
    for text in found.values():
        listener.message(f"different arithmetic: {text}")


def refusal(checkpoint: Path, silent: list[str]) -> str:
    reason = why_no_kernels()
    lines = [
        f"{checkpoint} was computed differently from what this process would do, so the run would end elsewhere:",
        *silent,
        *([f"the C++ kernels are missing: {reason}"] if reason else []),
        "Restore what it was, or add --allow-different-arithmetic to go on with the difference",
    ]
    return "\n  ".join(lines)


def describe(arithmetic: Arithmetic) -> str:
    return ", ".join(f"{name} {value}" for name, value in vars(arithmetic).items())


def identities(data: DataConfig) -> dict[str, list[dict[str, Any]]]:
    """What the run folder stores of the corpora."""
    return {use: [identity(corpus) for corpus in corpora] for use, corpora in used(data)}


def used(data: DataConfig) -> Iterator[tuple[str, tuple[CorpusConfig, ...]]]:
    yield "train", data.train
    yield "valid", data.valid


def report_changed_corpora(old: RunConfig, run: RunConfig, folder: RunFolder, listener: Listener) -> None:
    """Report corpora whose text changed although their settings did not."""
    try:
        stored = folder.read_corpora()
    except DamagedFileError as error:
        listener.message(f"{error}; whether the texts changed since the last checkpoint is not known")
        return
    former = dict(used(old.data))
    for use, corpora in used(run.data):
        for known, before, corpus in zip(stored.get(use, []), former[use], corpora, strict=False):
            if before == corpus and known != identity(corpus):
                kind = "validation text" if use == "valid" else "text"
                listener.message(f"changed: the {kind} of {corpus_name(corpus)}")
    for known, before, corpus in zip(stored.get(FORMER, []), old.data.train, run.data.train, strict=False):
        if before == corpus and not has_former_files(known):
            listener.message(f"changed: the text of {corpus_name(corpus)} (path, size or time of its files)")


def has_former_files(known: Any) -> bool:
    """Whether the files that version 0.1 recorded have the size and the time that they had."""
    try:
        files = [known["file"]] if "file" in known else known.get("files", [])
        statuses = [(os.stat(path), size, time) for path, size, time in files]
        return all((status.st_size, status.st_mtime_ns) == (size, time) for status, size, time in statuses)
    except (OSError, ValueError, TypeError, AttributeError):
        return False
