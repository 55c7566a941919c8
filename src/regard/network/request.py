"""One HTTP GET: redirects are followed under rules, and the access token goes to its own host only.

A redirect may lead to another host, as a hub's do to its file store, but not from https to http, and not on for ever.
The `Authorization` header is sent to the host (name and port) of the first address alone.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, Any

from regard.errors import NetworkError

MAX_REDIRECTS = 5
TIMEOUT = 30.0  # seconds without a byte
REDIRECTS = (301, 302, 303, 307, 308)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are answered like any other status, so that `open_url` can check where they lead."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def open_url(
    url: str, headers: Mapping[str, str] | None = None, token: str | None = None, timeout: float = TIMEOUT
) -> http.client.HTTPResponse:
    """The response to a GET request, after redirects; any status but 200 and 206 is a NetworkError.

    Content is asked for as it is, not compressed: with compression, servers ignore a `Range`.
    """
    opener = urllib.request.build_opener(_NoRedirects)
    sent = {"User-Agent": "regard", "Accept-Encoding": "identity", **(headers or {})}
    first, current = check_url(url), url
    for _ in range(MAX_REDIRECTS + 1):
        here = check_url(current)
        own = {"Authorization": f"Bearer {token}"} if token and here.netloc == first.netloc else {}
        request = urllib.request.Request(current, headers={**sent, **own})
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
            return response
        except urllib.error.HTTPError as error:
            with error:
                location = error.headers.get("Location")
                if error.code not in REDIRECTS or not location:
                    raise status_error(current, error) from None
            current = redirected(current, location)
        except ValueError as error:  # of an address, that of a proxy or redirect too
            raise NetworkError(f"{current} cannot be asked for: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise NetworkError(
                f"{here.netloc} cannot be reached: {reason}. Check the network and try again", temporary=True
            ) from None
    raise NetworkError(f"{url} redirects more than {MAX_REDIRECTS} times")


def check_url(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        valid = url.isascii() and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.password is not None:
        raise NetworkError(f"{url!r} is not an http or https address without user name and password")
    return parts


def redirected(url: str, location: str) -> str:
    """The address that a redirect leads to."""
    target = urllib.parse.urljoin(url, location)
    if urllib.parse.urlsplit(url).scheme == "https" and check_url(target).scheme != "https":
        raise NetworkError(f"{url} redirects to {target}, which is not encrypted; the download is refused")
    return target


def status_error(url: str, error: urllib.error.HTTPError) -> NetworkError:
    match error.code:
        case 401 | 403:
            hint = "access is denied: the name is wrong, or the repository is private or gated and needs HF_TOKEN"
        case 404:
            hint = "there is no such file or repository: check the name and the revision"
        case 429:
            hint = "too many requests: try again later"
        case _:
            hint = "try again later" if error.code >= 500 else "the request was refused"
    return NetworkError(f"{url}: status {error.code}, {hint}", status=error.code)


def read_bounded(stream: IO[bytes], url: str, limit: int) -> bytes:
    """The whole of a response that is expected to be small."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise NetworkError(f"{url} answers with more than {limit:,} bytes, which is not what was expected")
    return content
