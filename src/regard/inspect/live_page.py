"""The explorer with its model, without a server: one file, or a static site.

`regard explain --live` writes the file and `regard site` the site. The page computes the model itself (web/src/model),
so that another sentence can be typed and the model be changed. The file has the model inside; the site has models as
files of their own, which the page fetches when they are first used.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, RegardError
from regard.inspect.answers import Limits, Model, Models
from regard.inspect.built import HOW_TO_BUILD, PAGE
from regard.inspect.explorer import Explorer
from regard.inspect.packed_model import pack_model, type_to_send
from regard.inspect.page import encoded, in_head
from regard.inspect.wire import plain
from regard.model_folder.atomic import atomic_write
from regard.model_folder.weights import StoredAs

SITE = "regard-site"
INDEX = "index.html"


@dataclass(frozen=True)
class Part:
    """A file of a site, or the model in a live page."""

    name: str
    size: int
    stored_as: StoredAs | None = None  # of a model


def live_page(
    explorer: Explorer,
    text: str,
    tgt_ids: Sequence[int] | None = None,
    stored_as: StoredAs | None = None,
    folder: Path | None = None,
) -> tuple[str, Part]:
    """The file's content, and its model; the page opens on this text."""
    template = (folder or PAGE) / "explain.html"
    if not template.is_file():
        raise RegardError(HOW_TO_BUILD)
    model = replace(explorer.describe("0"), in_page=True)
    stored_as = type_to_send(explorer.translator.folder, stored_as)
    packed = pack_model(explorer, model, stored_as)
    sentence = {"model": "0", "text": text, "tgt": None if tgt_ids is None else list(tgt_ids)}
    data = {"models": models_answer([model], explorer.limits), "sentence": sentence}
    elements = json_element("regard-live", data) + (
        f'<script type="application/octet-stream" id="regard-model-0">{encoded(packed)}</script>'
    )
    return in_head(template.read_text("utf-8"), elements), Part(model.name, len(packed), stored_as)


def write_site(explorers: Mapping[str, Explorer], folder: Path, stored_as: StoredAs | None = None) -> list[Part]:
    """Write a site with these models, by their names. The folder is new, empty, or an earlier site, which is replaced.

    The index comes last, so that no reader meets a page without its files.
    """
    if not (PAGE / INDEX).is_file():
        raise RegardError(HOW_TO_BUILD)
    earlier = files_of_site(folder)
    models, files, parts = [], {}, []
    for number, (name, explorer) in enumerate(explorers.items()):
        kept = type_to_send(explorer.translator.folder, stored_as)
        model = replace(explorer.describe(str(number), name), in_page=True)
        content = gzip.compress(pack_model(explorer, model, kept), compresslevel=6, mtime=0)
        # The hash changes with the content, so that no browser uses an old copy.
        files[model.id] = f"models/{number}-{hashlib.sha256(content).hexdigest()[:12]}.bin"
        write_in(folder, files[model.id], content)
        models.append(model)
        parts.append(Part(f"{files[model.id]} ({name})", len(content), kept))
    assets = [path.relative_to(PAGE).as_posix() for path in sorted((PAGE / "assets").iterdir())]
    for name in assets:
        write_in(folder, name, (PAGE / name).read_bytes())
        parts.append(Part(name, (PAGE / name).stat().st_size))
    limits = next(iter(explorers.values())).limits
    data = {"models": models_answer(models, limits), "files": files, "assets": assets}
    index = in_head((PAGE / INDEX).read_text("utf-8"), json_element(SITE, data)).encode()
    write_in(folder, INDEX, index)
    for name in earlier - {*files.values(), *assets}:
        (folder / name).unlink(missing_ok=True)
    return [*parts, Part(INDEX, len(index))]


def models_answer(models: Sequence[Model], limits: Limits) -> Any:
    return plain(Models(tuple(models), limits, version("regard")))


def json_element(name: str, data: Any) -> str:
    # In a script element nothing is an entity, and "</script" or "<!--" would end or change it.
    content = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{content}</script>'


def write_in(folder: Path, name: str, content: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, content)


def files_of_site(folder: Path) -> set[str]:
    """The models and assets of an earlier site in this folder, which may be replaced; other contents are refused."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file; give a folder")
    visible = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if not visible:
        return set()
    index = folder / INDEX
    start = f'<script type="application/json" id="{SITE}">'
    text = index.read_text("utf-8", errors="replace") if index.is_file() else ""
    if start not in text:
        raise ConfigError(f"{folder} has files that regard site did not write; give a new or an empty folder")
    data = json.loads(text.partition(start)[2].partition("</script>")[0])
    names = [*data["files"].values(), *data["assets"]]
    # The names are read from a file: nothing outside these folders is deleted.
    return {name for name in names if Path(name).parent in (Path("models"), Path("assets"))}
