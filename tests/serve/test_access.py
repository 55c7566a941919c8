from __future__ import annotations

from typing import Any

import pytest

from regard.serve.access import is_loopback, is_own_host


@pytest.mark.parametrize(
    ("header", "host", "allowed"),
    [
        ("127.0.0.1:7777", "127.0.0.1", True),
        ("localhost:7777", "127.0.0.1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("[::1]:7777", "127.0.0.1", True),
        ("regard.localhost:7777", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.1", True),
        ("evil.example:7777", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("evillocalhost", "127.0.0.1", False),
        ("192.168.1.5:7777", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("user@localhost:7777", "127.0.0.1", True),
        ("192.168.1.5:7777", "0.0.0.0", True),
        ("[fe80::1]:7777", "::", True),
        ("evil.example", "0.0.0.0", False),
        ("box.example", "box.example", True),
    ],
)
def test_accepted_host_names(header: str, host: str, allowed: bool) -> None:
    assert is_own_host(header, host) == allowed


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.9.9.9")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org")))


def test_a_foreign_name_that_points_here_gets_nothing(client: Any) -> None:
    for path in ("/", "/api/models"):
        reply = client.get(path, Host="evil.example")
        assert reply.status == 421
        assert "invalid Host header: 'evil.example'" in reply.json["error"]
        assert "content-security-policy" in reply.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_link_to_the_page_but_not_ask(client: Any, site: str) -> None:
    assert client.get("/api/models", Sec_Fetch_Site=site).status == 403
    assert client.get("/", Sec_Fetch_Site=site).status == 200
    reply = client.post("/api/toy", {}, Origin="http://evil.example", Sec_Fetch_Site=site)
    assert (reply.status, reply.json["error"]) == (403, "requests from other sites are refused")
    assert client.post("/api/toy", {}, Origin="null").status == 403
    assert client.get("/api/runs").json["toy"] is None


def test_the_own_page_may_ask(client: Any) -> None:
    own = f"http://127.0.0.1:{client.port}"
    assert client.get("/api/models", Origin=own, Sec_Fetch_Site="same-origin").status == 200
    assert client.get("/api/models", Sec_Fetch_Site="none").status == 200
    for malformed in ("http://[::1", "//", "http://[v1.x]", "\xff"):
        assert client.get("/api/models", Origin=malformed).status == 403
    other_port = f"http://127.0.0.1:{client.port - 1}"
    assert client.get("/api/models", Origin=other_port).status == 403


@pytest.mark.parametrize("path", ["/", "/assets/index-abc.js", "/api/models", "/api/nothing", "/nothing"])
def test_every_answer_has_the_headers_that_keep_a_page_safe(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
