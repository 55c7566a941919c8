"""Bind the server to an address and run it until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from regard.errors import ConfigError
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.loaded_models import LoadedModels
from regard.serve.runs import RunFolders
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache
from regard.serve.workers import Workers


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


class AnnouncedServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.announce()


def serve(bound: socket.socket, host: str, folders: Sequence[Path], runs: Path, announce: Callable[[], None]) -> None:
    """Serve until interrupted. `announce` is called when the server accepts requests."""
    toy, workers = ToyTraining(runs), Workers()
    try:
        app = build_app(Api(LoadedModels(folders), RunFolders(runs), toy, TraceCache()), workers, host)
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", limit_concurrency=256, server_header=False, ws="none"
        )
        AnnouncedServer(config, announce).run(sockets=[bound])
    finally:
        toy.close()
        workers.close()
        bound.close()
