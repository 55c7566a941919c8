"""Who may ask: the person's own browser, on this server's own page.

A page of another site must not be able to use this server through the browser of whoever runs it. Three doors are
closed: a foreign name that is made to point here (the Host header is checked), a form or script of another site (the
Origin header is checked, and only JSON is taken, which other sites may not send unasked), and a frame around the page.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Styles may stand in the page, since that is how elements are placed; scripts may not.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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


class Guard:
    """Refuse strangers; put the headers that keep a page safe on every answer."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app = app
        self.host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if not is_own_name(headers.get("host", ""), self.host):
            refused = JSONResponse(
                {
                    "error": f"this server does not go by the name {headers.get('host', '')!r}",
                    "hint": "open it by the address that it printed",
                },
                421,
            )
            await refused(scope, receive, send_guarded)
        elif scope["path"].startswith("/api") and not is_own_page(headers):
            refused = JSONResponse({"error": "only this server's own page may ask it", "hint": "open its page"}, 403)
            await refused(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send_guarded)


def is_own_name(header: str, host: str) -> bool:
    """Whether a Host header names this server: no name that a stranger could have made point here.

    An address needs no name server, so nobody can make it point elsewhere. A server for this machine alone is called
    by a loopback address; one for others, by any address, or by a name of this machine or its own.
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
        return not is_loopback(host) and name in (socket.gethostname().lower(), socket.getfqdn().lower())
    return address.is_loopback or not is_loopback(host)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_page(headers: Headers) -> bool:
    """Browsers say where a request comes from; what says nothing is no browser's page."""
    origin = headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc == headers.get("host")
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")
