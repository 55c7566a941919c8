"""A real server in a thread of the test, asked over real HTTP."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import DecodeConfig, TransformerConfig
from regard.inspect.wire import unpack
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.loaded_models import LoadedModels
from regard.serve.protocol import BoundedProtocol, ConnectionLimits
from regard.serve.queues import Queues
from regard.serve.runs import RunFolders
from regard.serve.server import AnnouncedServer, bind
from regard.serve.text_models import LoadedTexts
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    sent: bytes

    @property
    def body(self) -> bytes:
        return gzip.decompress(self.sent) if self.headers.get("content-encoding") == "gzip" else self.sent

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return unpack(self.body)


@dataclass(frozen=True)
class Client:
    port: int
    api: Api

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kinds = {} if body is None else {"Content-Type": "application/json"}
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, sent, {**kinds, **given})
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, lowered, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.ask("POST", path, body, **headers)


Serve = Callable[..., Any]


@contextmanager
def served(
    folders: list[Path],
    runs: Path,
    page: Path,
    traces: TraceCache | None = None,
    connections: ConnectionLimits = ConnectionLimits(),  # noqa: B008
    answer_seconds: float = 120,
    texts: LoadedTexts | None = None,
) -> Iterator[Client]:
    toy, queues = ToyTraining(runs), Queues()
    api = Api(LoadedModels(folders), RunFolders(runs), toy, traces or TraceCache(), queues, texts)
    bound = bind("127.0.0.1", 0)
    ready = threading.Event()
    protocol = type("Protocol", (BoundedProtocol,), {"limits": connections})
    server = AnnouncedServer(build_app(api, page=page, answer_seconds=answer_seconds), ready.set, protocol)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert ready.wait(60)
        yield Client(bound.getsockname()[1], api)
    finally:
        server.should_exit = True
        thread.join(60)
        toy.close()
        queues.close()
        bound.close()


@pytest.fixture(scope="session")
def serve() -> Serve:
    return served


@pytest.fixture(scope="session")
def deep_model(tmp_path_factory: pytest.TempPathFactory, reverse_vocabulary: SentencePieceModel) -> Path:
    """A model of two layers with random weights, pre-norm."""
    size = reverse_vocabulary.size
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 2, "n_decoder_layers": 2}
    config = TransformerConfig(**sizes, norm_order="pre", src_vocab_size=size, tgt_vocab_size=size)
    torch.manual_seed(1)
    weights = {name: value.detach().numpy() for name, value in Transformer(config).named_parameters()}
    files = TokenizerPair(reverse_vocabulary, reverse_vocabulary).files()
    path = tmp_path_factory.mktemp("deep") / "deep"
    with atomic_folder(path) as folder:
        write_model(folder, ModelDescription(config, DecodeConfig(), "en", "xx", False, files), weights, "# Deep\n")
    return path


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page to serve: not the explorer's, which is built elsewhere."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text("<!doctype html><title>page</title>" + " " * 2000, "utf-8")
    (folder / "assets").mkdir()
    (folder / "assets" / "index-abc.js").write_text("export {};\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def client(reverse_model: Path, deep_model: Path, page: Path) -> Iterator[Client]:
    """Model 0 has learnt to reverse; model 1 has learnt nothing. The runs are those of model 0's training."""
    with served([reverse_model, deep_model], reverse_model.parents[1], page) as client:
        yield client


@pytest.fixture(scope="session")
def deep(deep_model: Path) -> ModelTranslator:
    return ModelTranslator(deep_model)
