"""The explorer's server as an ASGI application.

The event loop only receives and sends: requests are parsed, answered, serialised and compressed in worker threads. The
size of a request is limited, and every error is JSON: {"error": what is wrong, "hint": what to do}.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
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

from regard.config import build
from regard.errors import RegardError
from regard.inspect.built import HOW_TO_BUILD, PAGE
from regard.inspect.wire import to_json
from regard.serve.access import AccessControl
from regard.serve.api import Api
from regard.serve.endpoints import ENDPOINTS, MEDIA_TYPES, Endpoint
from regard.serve.http_error import HttpError
from regard.serve.line_stream import LineStream
from regard.serve.openapi import describe_api
from regard.serve.requests import read_query
from regard.serve.workers import Workers

MAX_BODY = 256 * 1024
BODY_SECONDS = 30  # for the request to arrive
MIN_COMPRESSED = 1024  # bytes; smaller answers are not compressed
LARGE = 256 * 1024  # bytes; larger answers are compressed at the fastest level
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def build_app(api: Api, workers: Workers, host: str = "127.0.0.1", page: Path = PAGE) -> Starlette:
    """`host` is the address that the server is bound to."""
    document = to_json(describe_api())
    routes = [route_of(api, workers, endpoint) for endpoint in ENDPOINTS]
    routes.append(Route("/openapi.json", lambda request: Response(document, media_type=MEDIA_TYPES["json"])))
    static = GZipMiddleware(Page(directory=page, html=True, check_dir=False), compresslevel=5)
    return Starlette(
        # The API is mounted as a whole, so that an unknown path or method in it is not looked up as a static file.
        routes=[Mount("/api", routes=routes), Mount("/", app=static)],
        middleware=[Middleware(AccessControl, host=host)],
        exception_handlers={HTTPException: http_exception_response},  # type: ignore[dict-item]
    )


def route_of(api: Api, workers: Workers, endpoint: Endpoint) -> Route:
    respond = (streaming_handler if endpoint.form == "lines" else plain_handler)(api, workers, endpoint)
    return Route(
        endpoint.path.removeprefix("/api"), with_errors(respond), methods=[endpoint.method], name=endpoint.name
    )


def streaming_handler(api: Api, workers: Workers, endpoint: Endpoint) -> Handler:
    answer: Callable[..., None] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body, stream = await read_json(request), LineStream()

        def work() -> None:
            answer(parse_request(endpoint, body, request.query_params), stream.send, **request.path_params)

        job = asyncio.ensure_future(workers.run(work))
        stream.end_with(job)
        try:
            first = await cancel_on_disconnect(request, stream.queue.get())
        except BaseException:
            stream.close(job)
            raise
        if first is None:  # it failed before the first line
            await job
        lines = stream.lines(first or b"", job, lambda error: to_http_error(error).content())
        return StreamingResponse(lines, headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPES[endpoint.form])

    return respond


def plain_handler(api: Api, workers: Workers, endpoint: Endpoint) -> Handler:
    answer: Callable[..., Any] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body = await read_json(request) if endpoint.method == "POST" else b""
        compress = "gzip" in request.headers.get("accept-encoding", "")

        def work() -> tuple[bytes, bool]:
            answered = answer(parse_request(endpoint, body, request.query_params), **request.path_params)
            content = answered if isinstance(answered, bytes) else to_json(answered)
            return compressed(content) if compress else (content, False)

        content, is_compressed = await cancel_on_disconnect(request, workers.run(work))
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


def to_http_error(error: BaseException) -> HttpError:
    """An unexpected exception is a 500, and its traceback is printed to the terminal."""
    match error:
        case HttpError():
            return error
        case RegardError():
            return HttpError(422, str(error))
        case _:
            traceback.print_exception(error, file=sys.stderr)
            return HttpError(500, "internal error in Regard", "the traceback is in the terminal where the server runs")


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


async def read_json(request: Request) -> bytes:
    """The body, if it is declared as JSON and is not too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, f"the body must be application/json, not {kind or 'without a content type'}")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise HttpError(413, f"the body is larger than {MAX_BODY // 1024} KB", "shorten the text")
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {BODY_SECONDS} seconds") from None
    return body


def parse_request(endpoint: Endpoint, body: bytes, query: Mapping[str, str]) -> Any:
    if endpoint.method == "GET":
        return read_query(endpoint.request, query)
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise HttpError(422, "the body must be a JSON object")
    return build(endpoint.request, tree, "")


def error_response(error: HttpError) -> Response:
    headers = {"Cache-Control": "no-store"}
    if error.status == 503:
        headers["Retry-After"] = "1"
    return Response(to_json(error.content()), error.status, headers, MEDIA_TYPES["json"])


async def http_exception_response(request: Request, error: HTTPException) -> Response:
    """An error of Starlette's own: a wrong method, a static file that does not exist."""
    response = error_response(HttpError(error.status_code, f"{request.method} {request.url.path}: {error.detail}"))
    response.headers.update(error.headers or {})
    return response


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
