"""The explorer's server as an ASGI application.

The event loop only receives and sends: requests are parsed, answered, serialised and compressed in worker threads, each
in the queue of the model that it is about. The size of a request and the time for an answer are limited; when a client
disconnects or its time is over, its search is cancelled.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from regard.decode.engine_control import SearchControl
from regard.inspect.built import HOW_TO_BUILD, PAGE
from regard.inspect.wire import to_json
from regard.serve.access import AccessControl, SecurityHeaders
from regard.serve.api import Api
from regard.serve.endpoints import ENDPOINTS, MEDIA_TYPES, Endpoint
from regard.serve.error_responses import UnexpectedErrors, error_response, http_exception_response, to_http_error
from regard.serve.line_stream import LineStream, took_too_long
from regard.serve.openapi import describe_api
from regard.serve.request_body import parse_request, read_body

ANSWER_SECONDS = 300.0  # from the arrival of a request to the end of its answer
MIN_COMPRESSED = 1024  # bytes; smaller answers are not compressed
LARGE = 256 * 1024  # bytes; larger answers are compressed at the fastest level
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def build_app(
    api: Api, host: str = "127.0.0.1", page: Path = PAGE, answer_seconds: float = ANSWER_SECONDS
) -> Starlette:
    """`host` is the address that the server is bound to."""
    document = to_json(describe_api())
    routes = {endpoint.path: route_of(api, endpoint, answer_seconds) for endpoint in ENDPOINTS}
    health = routes.pop("/health")
    described = Route("/openapi.json", lambda request: Response(document, media_type=MEDIA_TYPES["json"]))
    static = GZipMiddleware(Page(directory=page, html=True, check_dir=False), compresslevel=5)
    return Starlette(
        # The API is mounted as a whole, so that an unknown path or method in it is not looked up as a static file.
        routes=[health, Mount("/api", routes=[*routes.values(), described]), Mount("/", app=static)],
        middleware=[Middleware(SecurityHeaders), Middleware(UnexpectedErrors), Middleware(AccessControl, host=host)],
        exception_handlers={HTTPException: http_exception_response},  # type: ignore[dict-item]
    )


def route_of(api: Api, endpoint: Endpoint, seconds: float) -> Route:
    """The route of an endpoint; it has at most so many seconds for an answer."""
    respond = (streaming_handler if endpoint.form == "lines" else plain_handler)(api, endpoint, seconds)
    return Route(
        endpoint.path.removeprefix("/api"), with_errors(respond), methods=[endpoint.method], name=endpoint.name
    )


def streaming_handler(api: Api, endpoint: Endpoint, seconds: float) -> Handler:
    answer: Callable[..., None] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body, control = await read_body(request), SearchControl()
        stream = LineStream(seconds, control.cancel)

        async def first_line() -> bytes | None:
            asked = await api.queues.quick.run(lambda: parse_request(endpoint, body, request.query_params))
            queue = api.queue(endpoint, asked, request.path_params)
            stream.start(queue.run(lambda: answer(asked, control, stream.send)))
            return await stream.next()

        try:
            first = await cancel_on_disconnect(request, first_line())
        except BaseException:
            stream.close()
            raise
        lines = stream.lines(first, lambda error: to_http_error(error).content())
        return StreamingResponse(lines, headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPES[endpoint.form])

    return respond


def plain_handler(api: Api, endpoint: Endpoint, seconds: float) -> Handler:
    answer: Callable[..., Any] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body = await read_body(request) if endpoint.method == "POST" else b""
        compress = endpoint.compress and "gzip" in request.headers.get("accept-encoding", "")
        control = SearchControl()
        cancellable = (control,) if endpoint.queue == "search" else ()

        def work(asked: Any) -> tuple[bytes, bool]:
            answered = answer(asked, *cancellable, **request.path_params)
            content = answered if isinstance(answered, bytes) else to_json(answered)
            return compressed(content) if compress else (content, False)

        async def answered() -> tuple[bytes, bool]:
            if endpoint.queue == "loop":
                return work(parse_request(endpoint, body, request.query_params))
            asked = await api.queues.quick.run(lambda: parse_request(endpoint, body, request.query_params))
            return await api.queue(endpoint, asked, request.path_params).run(lambda: work(asked))

        try:
            async with asyncio.timeout(seconds):
                content, is_compressed = await cancel_on_disconnect(request, answered())
        except TimeoutError:
            raise took_too_long(seconds) from None
        finally:
            control.cancel()
        headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=MEDIA_TYPES[endpoint.form])

    return respond


def with_errors(respond: Handler) -> Handler:
    """The handler, with exceptions turned into error responses."""

    async def respond_or_fail(request: Request) -> Response:
        try:
            return await respond(request)
        except ClientDisconnect:
            return Response(status_code=400)  # never received
        except Exception as error:
            return error_response(to_http_error(error))

    return respond_or_fail


async def cancel_on_disconnect(request: Request, answer: Coroutine[Any, Any, T]) -> T:
    """The answer, or ClientDisconnect: a page whose user types on drops its earlier requests."""
    found, gone = asyncio.ensure_future(answer), asyncio.ensure_future(wait_for_disconnect(request))
    try:
        await asyncio.wait({found, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise ClientDisconnect
        return found.result()
    finally:
        found.cancel()
        gone.cancel()
        await asyncio.gather(found, gone, return_exceptions=True)


async def wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def compressed(content: bytes) -> tuple[bytes, bool]:
    """The content, and whether it was compressed."""
    if len(content) < MIN_COMPRESSED:
        return content, False
    return gzip.compress(content, compresslevel=1 if len(content) > LARGE else 6, mtime=0), True


class Page(StaticFiles):
    """The built page. Files with a hash in their name are cached for ever, the others revalidated."""

    async def check_config(self) -> None:
        """Not checked: the page may be built while the server runs."""

    async def get_response(self, path: str, scope: Any) -> Response:
        if path == "." and not Path(str(self.directory), "index.html").is_file():
            return PlainTextResponse(f"{HOW_TO_BUILD}\n", 503)
        response = await super().get_response(path, scope)
        forever = path.startswith("assets/") and response.status_code == 200
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if forever else "no-cache"
        return response
