"""Errors as JSON: {"error": what is wrong, "hint": what to do}.

An unexpected exception is written to the log with a reference, and the client gets the reference only.
"""

from __future__ import annotations

import logging
import secrets
import traceback

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.inspect.wire import to_json
from regard.serve.endpoints import MEDIA_TYPES
from regard.serve.http_error import HttpError

log = logging.getLogger("regard.serve")


def to_http_error(error: BaseException) -> HttpError:
    """An unexpected exception is a 500."""
    match error:
        case HttpError():
            return error
        case RegardError():
            return HttpError(422, str(error))
        case MemoryError():
            return HttpError(503, "server busy: not enough memory", "try again in a moment, or ask for less")
        case _:
            reference = secrets.token_hex(4)
            log.error("internal error %s: %s", reference, "".join(traceback.format_exception(error)))
            return HttpError(
                500,
                f"internal error {reference} in Regard",
                f"the server's log explains the internal error {reference}",
            )


def error_response(error: HttpError) -> Response:
    headers = {"Cache-Control": "no-store"}
    if error.status == 503:
        headers["Retry-After"] = "1"
    return Response(to_json(error.content()), error.status, headers, MEDIA_TYPES["json"])


async def http_exception_response(request: Request, error: HTTPException) -> Response:
    """An error of Starlette's own: a wrong method, a static file that does not exist."""
    response = error_response(HttpError(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}"))
    response.headers.update(error.headers or {})
    return response


class UnexpectedErrors:
    """ASGI middleware: an exception that nobody has handled becomes an error response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:
            if started:  # uvicorn logs it and closes the connection
                raise
            await error_response(to_http_error(error))(scope, receive, send)
