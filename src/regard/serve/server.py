"""The server that a person runs: bound to an address, ready when it says so, gone when it is told to go."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from regard.errors import ConfigError
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.loaded_models import Shelf
from regard.serve.runs import Runs
from regard.serve.toy import ToyTraining
from regard.serve.traces import Traces
from regard.serve.workers import Workers


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
    except (socket.gaierror, OverflowError, UnicodeError) as error:
        raise ConfigError(f"there is no address {host}, port {port} to serve at: {error}") from None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise ConfigError(
            f"the explorer cannot be served at {host}, port {port}: {error.strerror}; choose another with --port "
            "(0 takes any that is free)"
        ) from None
    return found


def address_of(bound: socket.socket, host: str) -> str:
    """What to open in a browser."""
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
    """Serve until interrupted. `announce` is called when questions are answered."""
    toy, workers = ToyTraining(runs), Workers()
    try:
        app = build_app(Api(Shelf(folders), Runs(runs), toy, Traces()), workers, host)
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", limit_concurrency=256, server_header=False, ws="none"
        )
        AnnouncedServer(config, announce).run(sockets=[bound])
    finally:
        toy.close()
        workers.close()
        bound.close()
