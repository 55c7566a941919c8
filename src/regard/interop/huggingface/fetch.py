"""Download a model from the Hugging Face Hub and import it.

The files wait in the cache until the import has succeeded, so that an interrupted download is resumed and a failed
import needs no second download; then they are deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from regard.interop.huggingface.folder import Imported, Say
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.atomic import download_folder
from regard.network.download import download
from regard.network.hub import HubModel, access_token, find_model, needed_files, parse_address

Progress = Callable[[str, int, int], None]  # file, bytes that have arrived, bytes of the file


def fetch_model(
    address: str,
    target: Path,
    allow_pickle: bool,
    say: Say,
    progress: Progress,
    trial: Callable[[Path], object],
) -> Imported:
    """Write the model `OWNER/NAME` or `OWNER/NAME@REVISION` of the hub to the new folder `target`."""
    name, revision = parse_address(address)
    model = find_model(name, revision)
    source = fetch_files(model, needed_files(model, allow_pickle), progress)
    imported = import_folder(source, target, say, trial, allow_pickle, origin=f"{model.name}, commit {model.commit}")
    shutil.rmtree(source)
    return imported


def fetch_files(model: HubModel, names: list[str], progress: Progress) -> Path:
    """The folder in the cache that has these files, whole and verified."""
    folder = download_folder(f"{model.name.replace('/', '--')}-{model.commit}")
    token = access_token()
    for name in names:
        file = model.files[name]
        download(file, folder / name, token, lambda count, name=name, size=file.size: progress(name, count, size))  # type: ignore[misc]
    return folder
