"""HTTP/1.1 with limits on connections: their number, the time to send a request, the time to accept an answer.

uvicorn has a timeout for idle connections only, and counts connections without a request as requests in progress. Here
a connection that does not send its request or does not read its answer is closed, and when there are too many, the one
that has waited longest for its client makes room. Errors of the protocol are JSON, as all others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.error_responses import error_response
from regard.serve.http_error import HttpError


@dataclass(frozen=True)
class ConnectionLimits:
    connections: int = 128
    header_seconds: float = 10  # from the first byte of a request, or from the connection, to the end of the headers
    body_seconds: float = 30  # to the end of the body; the application has a shorter limit for bodies that it reads
    write_seconds: float = 30  # without any progress in sending an answer
    check_seconds: float = 1  # interval of the checks


class BoundedProtocol(H11Protocol):
    """A connection."""

    limits = ConnectionLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.unsent_since = self.loop.time()  # of the request that is awaited; of the last progress
        self.has_begun = False  # the request that is awaited
        self.unsent = 0  # bytes
        self.timer = self.loop.call_later(self.limits.check_seconds, self.check)
        if len(self.connections) > self.limits.connections:
            self.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.has_begun:
            self.has_begun, self.since = True, self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self.has_begun, self.since = False, self.loop.time()
        super().on_response_complete()

    @property
    def is_answering(self) -> bool:
        """Whether a request has arrived and its answer is not complete."""
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)

    def make_room(self) -> None:
        """Close the connection that has waited longest for its client; if all are being answered, refuse this one."""
        others = (one for one in self.connections if one is not self and isinstance(one, BoundedProtocol))
        waiting = [one for one in others if not one.is_answering]
        if waiting:
            min(waiting, key=lambda one: one.since).transport.abort()
        else:
            busy = HttpError(503, "server busy: too many connections", "try again in a moment")
            response = error_response(busy)
            response.headers["Connection"] = "close"
            self.app: Any = response

    def check(self) -> None:
        """Close the connection if its client takes too long."""
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self.unsent:
            self.unsent_since = now
        self.unsent = unsent
        if now - self.unsent_since > self.limits.write_seconds:
            self.transport.abort()
        elif not self.is_answering and not self.transport.is_closing():
            self.check_request(now)
        self.timer = self.loop.call_later(self.limits.check_seconds, self.check)

    def check_request(self, now: float) -> None:
        in_body = self.conn.their_state is h11.SEND_BODY
        if now - self.since <= (self.limits.body_seconds if in_body else self.limits.header_seconds):
            return
        if in_body:
            self.transport.abort()
        elif self.has_begun:
            seconds = f"{self.limits.header_seconds:g} seconds"
            self.refuse(HttpError(408, f"the headers did not arrive within {seconds}", "send the request again"))
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what is not HTTP."""
        self.refuse(HttpError(400, "this is not a valid HTTP request", "send HTTP/1.1, with headers below 16 KB"))

    def refuse(self, error: HttpError) -> None:
        """Answer a request that has not arrived whole, unless an answer has begun, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        response = error_response(error)
        headers = [*response.raw_headers, (b"connection", b"close")]
        events = (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer has begun, or the request is one whose answer has no body
            self.transport.abort()
        else:
            self.transport.close()
