"""Access control: only the server's own page may use the API.

It prevents a page of another site from using the server through the user's browser: by DNS rebinding (the Host header
is checked), by a cross-site form or script (the Origin header is checked, and only JSON is accepted, which needs a CORS
preflight), and by framing the page (the response headers forbid it).
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.error_responses import error_response
from regard.serve.http_error import HttpError

# Inline styles are allowed, because elements are positioned with them; inline scripts are not.
POLICY = (
    "default-src 'self'; script-src 'self'; worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware: add the headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class AccessControl:
    """ASGI middleware: refuse requests from elsewhere."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app = app
        self.host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self.refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (error_response(error) if error else self.app)(scope, receive, send)

    def refusal(self, path: str, headers: Headers) -> HttpError | None:
        host = headers.get("host", "")
        if not is_own_host(host, self.host):
            return HttpError(421, f"invalid Host header: {host!r}", "use the URL that the server printed")
        if path.startswith("/api") and not is_same_origin(headers):
            return HttpError(403, "requests from other sites are refused", "open the server's own page")
        return None


def is_own_host(header: str, host: str) -> bool:
    """Whether a Host header names this server, rather than a name that DNS rebinding points here.

    Addresses are safe, because DNS does not resolve them. A server on a loopback address accepts loopback addresses
    only; any other accepts every address, this machine's names, and `host`.
    """
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost") or name == host.lower():
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return not is_loopback(host) and name in machine_names()
    return address.is_loopback or not is_loopback(host)


@functools.cache  # it may ask a name server, and the event loop must not wait for that at every request
def machine_names() -> tuple[str, str]:
    return socket.gethostname().lower(), socket.getfqdn().lower()


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_origin(headers: Headers) -> bool:
    """Whether a request comes from the server's own page, or from something other than a browser."""
    origin = headers.get("origin")
    if origin is not None:
        try:
            return urlsplit(origin).netloc == headers.get("host")
        except ValueError:  # such as "http://[::1"
            return False
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")
