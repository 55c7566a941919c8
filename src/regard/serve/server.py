"""Bind the server to an address and run it until it is interrupted."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from regard.errors import ConfigError
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.loaded_models import LoadedModels
from regard.serve.protocol import BoundedProtocol
from regard.serve.queues import Queues
from regard.serve.runs import RunFolders
from regard.serve.text_models import LoadedTexts, is_text_model
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to this address; port 0 selects a free one."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except (socket.gaierror, OverflowError, UnicodeError) as error:
        raise ConfigError(f"cannot resolve the address {host}, port {port}: {error}") from None
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with --port (0 selects a free one)"
        ) from None
    return bound


def address_of(bound: socket.socket, host: str) -> str:
    """The URL to open in a browser."""
    port = bound.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


GRACE_SECONDS = 2.0  # for answers in progress when the server stops


class AnnouncedServer(uvicorn.Server):
    def __init__(
        self,
        app: Starlette,
        announce: Callable[[], None],
        protocol: type[BoundedProtocol] = BoundedProtocol,
    ) -> None:
        super().__init__(
            uvicorn.Config(app, http=protocol, log_level="error", lifespan="off", server_header=False, ws="none")
        )
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and disconnect the clients whose answers take too long: uvicorn waits until all are gone."""
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self.disconnect_all)
        await super().shutdown(sockets)

    def disconnect_all(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def serve(
    bound: socket.socket,
    host: str,
    folders: Sequence[Path],
    runs: Path,
    announce: Callable[[], None],
    page_parameters: float = 0,
) -> None:
    """Serve until interrupted. `announce` is called when the server accepts requests."""
    with interrupted_by("SIGTERM", "SIGHUP"):
        toy, queues = ToyTraining(runs), Queues()
        try:
            texts = [folder for folder in folders if is_text_model(folder)]
            translators = [folder for folder in folders if folder not in texts]
            models = LoadedModels(translators, page_parameters=page_parameters)
            api = Api(models, RunFolders(runs), toy, TraceCache(), queues, LoadedTexts(texts))
            AnnouncedServer(build_app(api, host), announce).run(sockets=[bound])
        finally:
            toy.close()
            queues.close()
            bound.close()


@contextmanager
def interrupted_by(*names: str) -> Iterator[None]:
    """Treat these signals like Ctrl-C, so that what the server has started ends with it.

    While uvicorn runs, it handles SIGTERM itself, and raises it again when it has stopped.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
