"""The explorer's server as an ASGI application: requests in, the answers of `Api` out.

The event loop only reads and sends: questions are parsed, answered, written and compressed in worker threads. Every
request is bounded before it is read, and every error is JSON: {"error": a sentence, "hint": what to do}.
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
from regard.serve.access import Guard
from regard.serve.api import ENDPOINTS, MEDIA, Api, Endpoint
from regard.serve.http_error import HttpError
from regard.serve.openapi import describe_api
from regard.serve.requests import read_query
from regard.serve.streaming import Lines
from regard.serve.workers import Workers

MOST_BODY = 256 * 1024
BODY_SECONDS = 30  # for the request to arrive
WORTH_COMPRESSING = 1024
LARGE = 256 * 1024  # compressed less hard: somebody waits
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def build_app(api: Api, workers: Workers, host: str = "127.0.0.1", page: Path = PAGE) -> Starlette:
    """`host` is what the server is bound to."""
    document = to_json(describe_api())
    routes = [route_of(api, workers, endpoint) for endpoint in ENDPOINTS]
    routes.append(Route("/openapi.json", lambda request: Response(document, media_type=MEDIA["json"])))
    static = GZipMiddleware(Page(directory=page, html=True, check_dir=False), compresslevel=5)
    return Starlette(
        # The API is mounted as a whole: a wrong method or name in it must not end in a search for a file of the page.
        routes=[Mount("/api", routes=routes), Mount("/", app=static)],
        middleware=[Middleware(Guard, host=host)],
        exception_handlers={HTTPException: refuse_http},  # type: ignore[dict-item]
    )


def route_of(api: Api, workers: Workers, endpoint: Endpoint) -> Route:
    respond = (respond_in_lines if endpoint.gives == "lines" else respond_at_once)(api, workers, endpoint)
    return Route(endpoint.path.removeprefix("/api"), telling(respond), methods=[endpoint.method], name=endpoint.name)


def respond_in_lines(api: Api, workers: Workers, endpoint: Endpoint) -> Handler:
    answer: Callable[..., None] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body, lines = await read_json(request), Lines()

        def work() -> None:
            answer(read_question(endpoint, body, request.query_params), lines.tell, **request.path_params)

        job = asyncio.ensure_future(workers.do(work))
        lines.follow(job)
        try:
            first = await unless_gone(request, lines.queue.get())
        except BaseException:
            lines.leave(job)
            raise
        if first is None:  # it went wrong before there was anything to tell
            await job
        rest = lines.rest(first or b"", job, lambda failure: refusal_of(failure).content())
        return StreamingResponse(rest, headers={"Cache-Control": "no-store"}, media_type=MEDIA[endpoint.gives])

    return respond


def respond_at_once(api: Api, workers: Workers, endpoint: Endpoint) -> Handler:
    answer: Callable[..., dict[str, Any] | bytes] = getattr(api, endpoint.name)

    async def respond(request: Request) -> Response:
        body = await read_json(request) if endpoint.method == "POST" else b""
        compress = "gzip" in request.headers.get("accept-encoding", "")

        def work() -> tuple[bytes, bool]:
            asked = read_question(endpoint, body, request.query_params)
            found = answer(asked, **request.path_params)
            content = found if isinstance(found, bytes) else to_json(found)
            return squeezed(content) if compress else (content, False)

        content, is_squeezed = await unless_gone(request, workers.do(work))
        headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
        if is_squeezed:
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=MEDIA[endpoint.gives])

    return respond


def telling(respond: Handler) -> Handler:
    """The same, with a sentence for everything that can go wrong."""

    async def respond_or_refuse(request: Request) -> Response:
        try:
            return await respond(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            return refused(refusal_of(error))

    return respond_or_refuse


def refusal_of(error: BaseException) -> HttpError:
    """What went wrong, for the person; where the fault is ours, the terminal gets the whole story."""
    match error:
        case HttpError():
            return error
        case RegardError():
            return HttpError(422, str(error))
        case _:
            traceback.print_exception(error, file=sys.stderr)
            return HttpError(500, "something went wrong inside Regard", "the terminal where it runs says what")


async def unless_gone(request: Request, answer: Coroutine[Any, Any, T]) -> T:
    """The answer, unless whoever asked has gone: a person who types on has no use for what is still in the queue."""
    found, gone = asyncio.ensure_future(answer), asyncio.ensure_future(wait_until_gone(request))
    try:
        await asyncio.wait({found, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise ClientDisconnect
        return found.result()
    finally:
        found.cancel()
        gone.cancel()
        await asyncio.gather(found, gone, return_exceptions=True)


async def wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def squeezed(content: bytes) -> tuple[bytes, bool]:
    if len(content) < WORTH_COMPRESSING:
        return content, False
    return gzip.compress(content, compresslevel=1 if len(content) > LARGE else 6, mtime=0), True


async def read_json(request: Request) -> bytes:
    """The body, unless it is too large or not JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, f"the body must be application/json, not {kind or 'of no type'}")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY:
                    raise HttpError(
                        413, f"the request is larger than {MOST_BODY // 1024} KB", "ask about a shorter text"
                    )
    except TimeoutError:
        raise HttpError(408, f"the request did not arrive within {BODY_SECONDS} seconds") from None
    return body


def read_question(endpoint: Endpoint, body: bytes, query: Mapping[str, str]) -> Any:
    if endpoint.method == "GET":
        return read_query(endpoint.takes, query)
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise HttpError(422, "the body must be a JSON object")
    return build(endpoint.takes, tree, "")


def refused(refusal: HttpError) -> Response:
    headers = {"Cache-Control": "no-store"}
    if refusal.status == 503:
        headers["Retry-After"] = "1"
    return Response(to_json(refusal.content()), refusal.status, headers, MEDIA["json"])


async def refuse_http(request: Request, error: HTTPException) -> Response:
    """What Starlette refuses by itself: a wrong method, a file of the page that is not there."""
    response = refused(HttpError(error.status_code, f"{request.method} {request.url.path}: {error.detail}"))
    response.headers.update(error.headers or {})
    return response


class Page(StaticFiles):
    """The built page. Files with a hash in their name never change; the others are asked for each time."""

    async def check_config(self) -> None:
        """The page may be built, or built again, while the server runs."""

    async def get_response(self, path: str, scope: Any) -> Response:
        if path == "." and not Path(str(self.directory), "index.html").is_file():
            return PlainTextResponse(f"{HOW_TO_BUILD}\n", 503)
        response = await super().get_response(path, scope)
        forever = path.startswith("assets/") and response.status_code == 200
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if forever else "no-cache"
        return response
