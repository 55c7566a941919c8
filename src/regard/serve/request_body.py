"""The body of a request: received within limits of size and time, and read strictly as JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from regard.config import build
from regard.serve.endpoints import Endpoint
from regard.serve.http_error import HttpError
from regard.serve.requests import read_query

MAX_BODY = 256 * 1024
BODY_SECONDS = 20  # for the body to arrive
SURROGATE = re.compile("[\ud800-\udfff]")


async def read_body(request: Request) -> bytes:
    """The body, if it is declared as JSON and is not too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, f"the body must be application/json, not {kind or 'without a content type'}")
    too_large = HttpError(413, f"the body is larger than {MAX_BODY // 1024} KB", "shorten the text")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 20 or int(declared) > MAX_BODY):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise too_large
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {BODY_SECONDS} seconds") from None
    return bytes(body)


def parse_request(endpoint: Endpoint, body: bytes, query: Mapping[str, str]) -> Any:
    """The dataclass of the endpoint's requests."""
    if endpoint.method == "GET":
        return read_query(endpoint.request, query)
    try:
        tree = json.loads(body.decode("utf-8"))  # given bytes, json would guess the encoding and let surrogates pass
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise HttpError(422, "the body must be a JSON object")
    if has_surrogates(tree):
        raise HttpError(
            400, "the body has half of a surrogate pair, such as \\ud83d alone", "send the text as UTF-8, unescaped"
        )
    return build(endpoint.request, tree, "")


def has_surrogates(tree: Any) -> bool:
    """Whether a text in this JSON, or a key, cannot be written as UTF-8. Not recursive: `tree` may be deep."""
    rest = [tree]
    while rest:
        match rest.pop():
            case str(text):
                if SURROGATE.search(text):
                    return True
            case dict(table):
                rest += [*table, *table.values()]
            case list(items):
                rest += items
    return False
