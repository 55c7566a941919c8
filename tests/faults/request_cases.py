"""Requests for the fuzzer of the server: from its OpenAPI document, and malformed ones.

Each case is drawn from a generator of random numbers, so that it can be repeated. No case starts a training.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

TEXTS = [
    *["apple baby", "apple baby bird blue", "green", ""] * 3,
    *[
        "\ud800",
        "a\udfffb",
        "\x00",
        "\u2028\r\n",
        "é" * 700,
        "a" * 2001,
        "🙂‍↔️",
        "\u202eabc",
        "</s><unk><pad>",
        "ﬀ" * 50,
    ],
    *["0", "-1", "9" * 400, "NaN", "../..", "'\"`;--", "{{7*7}}", "%s%n", "apple " * 300],
]
NUMBERS = [
    0,
    1,
    2,
    3,
    5,
    -1,
    16,
    17,
    100,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    10**400,
    1.5,
    -0.0,
    1e308,
    1e-320,
]
PLACES = ["encoder.0", "decoder.0", "encoder.0.attention", "decoder.0.cross", "decoder.9", "", "."]
HINTS: dict[str, list[Any]] = {
    "model": ["0"] * 6 + ["1", "7", ""],
    "where": PLACES,
    "path": ["logits", "decoder.0.cross.weights", "encoder.0.attention.q", "src_embedded", *PLACES],
    "name": ["output.weight", "src_embedding.weight", "encoder.0.ffn.inner.weight", "", "..", "forward"],
    "rows": ["1,2", "0", "9" * 5000, ",", "²", "-1", "٣", "1," * 3000],
    "columns": ["0-8", "8-0", "-", "0-" + "9" * 4400, "٠-٣"],
    "run": ["odd", "deep", "missing", "..", "%2e%2e"],
    "prefix_ids": [[], [4], [5, 6, 7], [3], [10**20], [-1], [5] * 600],
    "tgt_ids": [[], [4], [5, 6, 7], [3], [10**20], [-1], [5] * 600],
    "beam": [1, 2, 4, 16, 17, 0, 10**400],
    "n_best": [1, 2, 4, 16, 17, 0, 10**400],
    "kind": ["head", "attention", "ffn", "residual", "layer", "scale", "positions", "mask", "weight"],
}
METHODS = [
    "GET",
    "POST",
    "HEAD",
    "OPTIONS",
    "PUT",
    "DELETE",
    "TRACE",
    "CONNECT",
    "PATCH",
    "PRI",
    "get",
    "G" * 300,
    "G\xe9T",
]
TARGETS = [
    *["/", "/api", "/api/", "/api/models", "/api/openapi.json", "/health", "/assets/", "/index.html", "*", "//", "/?"],
    *["/%00", "/%ff%fe", "/..%2f..%2fetc/passwd", "/\\..\\", "http://evil.example/api/models", "evil.example:80", "/%"],
    *[
        "/api/models/0/parameter?name=%00",
        "/api/trace/%00/next?step=0",
        "/api/runs/%ED%A0%80/metrics",
        "/" + "a" * 9000,
    ],
    *["/" + "a/" * 2000, "/api/models?" + "a=1&" * 2000, "/api/runs/odd/metrics?after=" + "9" * 5000, "/é", "/a b", ""],
]
HEADERS = [
    *["Host: evil.example", "Host: [::1", "Host: 127.0.0.1:999999", "Host:", "Host: a\r\nHost: b", "Host: \xff\xfe"],
    *[
        "Origin: http://[::1",
        "Origin: null",
        "Origin: http://evil.example",
        "Origin: \xff",
        "Origin: //",
        "Origin: http://[v1.a]",
    ],
    *["Content-Length: -1", "Content-Length: 1e3", "Content-Length: 99999999999999999999999", "Content-Length: 5, 6"],
    *["Content-Length: 3\r\nContent-Length: 4", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked"],
    *[
        "Transfer-Encoding: identity",
        "Expect: 100-continue",
        "Expect: nonsense",
        "Upgrade: websocket\r\nConnection: upgrade",
    ],
    *["Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "Accept-Encoding: gzip;q=x", "Content-Encoding: gzip"],
    *[
        "Content-Type: text/plain",
        "Content-Type: application/json; charset=utf-99",
        "Content-Type: \xff",
        "Content-Type:",
    ],
    *["Range: bytes=5-1,0-0,-9", "Range: bytes=" + "0-1," * 1500, "If-Modified-Since: \xff", 'If-None-Match: "'],
    *[
        "X: " + "a" * 20000,
        "\r\n".join(f"X-{i}: {i}" for i in range(300)),
        "X : y",
        ": y",
        " folded",
        "X: a\x00b",
        "X\x7f: 1",
    ],
    *[
        "Sec-Fetch-Site: cross-site",
        "Connection: keep-alive, close, upgrade",
        "Cookie: " + "a=b; " * 500,
        "TE: trailers",
    ],
]


@dataclass
class Case:
    sent: bytes
    whole: bool  # an answer must come
    method: str = "GET"


@dataclass
class Generator:
    """Makes cases; `traces` are names that the server has given."""

    document: dict[str, Any]
    port: int
    traces: list[str] = field(default_factory=list)

    def case(self, draw: random.Random) -> Case:
        kind = draw.choices(("described", "bodies", "headers", "raw", "framing"), (45, 15, 15, 15, 10))[0]
        made: Case = getattr(self, kind)(draw)
        return made

    # -- from the OpenAPI document

    def described(self, draw: random.Random) -> Case:
        path, methods = draw.choice(list(self.document["paths"].items()))
        method, operation = next(iter(methods.items()))
        query = []
        for one in operation.get("parameters", ()):
            pool = self.traces[-4:] if one["name"] == "trace" else []
            value = draw.choice(pool) if pool and draw.random() < 0.9 else self.value(one["schema"], one["name"], draw)
            text = quote(str(value).encode("utf-8", "surrogatepass"), safe="")
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", text)
            elif one["required"] or draw.random() < 0.5:
                query.append(f"{one['name']}={text}")
        if draw.random() < 0.05:
            query.append("more=1")
        body = b""
        if method == "post":
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = self.encoded(self.body(path, schema, draw), draw)
        return self.request(method.upper(), f"{path}?{'&'.join(query)}", body)

    def body(self, path: str, schema: dict[str, Any], draw: random.Random) -> Any:
        tree = self.value(schema, "", draw, wrong=0.03)
        if path == "/api/toy" and isinstance(tree, dict):
            tree["more"] = 1  # so that no training is started
        return tree

    def value(self, schema: dict[str, Any], name: str, draw: random.Random, wrong: float = 0.06) -> Any:
        if draw.random() < wrong:
            return draw.choice([None, True, [], {}, [[]], {"a": 1}, *draw.sample(TEXTS, 3), *draw.sample(NUMBERS, 3)])
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if choices := schema.get("oneOf", schema.get("anyOf")):
            return self.value(draw.choice(choices), name, draw, wrong)
        if "const" in schema or "enum" in schema:
            return draw.choice(schema.get("enum", [schema.get("const")]))
        if name in HINTS and draw.random() < 0.8:
            return draw.choice(HINTS[name])
        match schema.get("type"):
            case "object":
                named = schema.get("properties", {})
                chosen = [key for key in named if key in schema.get("required", ()) or draw.random() < 0.3]
                table = {key: self.value(named[key], key, draw, wrong) for key in chosen}
                return table | ({draw.choice(TEXTS): 1} if draw.random() < 0.05 else {})
            case "array":
                return [
                    self.value(schema["items"], name, draw, wrong) for _ in range(draw.choice((0, 1, 1, 2, 5, 520)))
                ]
            case "integer":
                return draw.choice([one for one in NUMBERS if isinstance(one, int)])
            case "number":
                return draw.choice([0.5, 1.0, *NUMBERS])
            case "boolean":
                return draw.choice((True, False))
            case "null":
                return None
            case _:
                return draw.choice(TEXTS)

    def encoded(self, tree: Any, draw: random.Random) -> bytes:
        text = json.dumps(tree, ensure_ascii=draw.random() < 0.5)
        return text.encode("utf-8", "surrogatepass")

    # -- bodies that are not what they should be

    def bodies(self, draw: random.Random) -> Case:
        body = self.odd_body(draw)
        made = self.request("POST", self.target(draw), body)
        return Case(made.sent, len(body) < 60_000, "POST")  # of a larger one, the server need not read the end

    def odd_body(self, draw: random.Random) -> bytes:
        text = json.dumps({"text": draw.choice(TEXTS), "model": "0"})
        deep = draw.choice((50, 400, 990, 5000, 100_000))
        return draw.choice(
            [
                lambda: text.encode("utf-16"),
                lambda: b"\xef\xbb\xbf" + text.encode(),
                lambda: text.encode()[: draw.randrange(len(text))],
                lambda: text.encode() + b" x",
                lambda: b'{"text": ' + b"[" * deep + b"]" * deep + b"}",
                lambda: b'{"text": "apple", "options": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}",
                lambda: b'{"text": "apple", "text": "baby"}',
                lambda: (
                    b'{"text": "apple", "options": {"length_penalty": %s}}'
                    % draw.choice((b"NaN", b"-Infinity", b"1e999"))
                ),
                lambda: b'{"text": "apple", "n_best": ' + b"9" * draw.choice((30, 4000, 5000)) + b"}",
                lambda: b'{"text": "' + b"a" * draw.choice((200_000, 300_000, 2_000_000)) + b'"}',
                lambda: b'{"text": "' + draw.randbytes(40) + b'"}',
                lambda: b'{"' + b"k" * 100_000 + b'": 1}',
                lambda: json.dumps({"text": "apple", "interventions": [{"kind": "scale"}] * 600}).encode(),
                lambda: draw.randbytes(draw.randrange(300)),
            ]
        )()

    def target(self, draw: random.Random) -> str:
        posts = [path for path, methods in self.document["paths"].items() if "post" in methods]
        return draw.choice([path for path in posts if path != "/api/toy"])

    def request(self, method: str, target: str, body: bytes = b"", *headers: str) -> Case:
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close", *headers]
        if body or method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")
        return Case(head + body, True, method)

    def headers(self, draw: random.Random) -> Case:
        """Odd methods, targets and headers: whether the server waits for more depends on them."""
        body = draw.choice((b"", self.encoded({"text": "apple"}, draw)))
        made = self.request(
            draw.choice(METHODS), draw.choice(TARGETS), body, *draw.sample(HEADERS, draw.choice((0, 1, 1, 2)))
        )
        version = draw.choice([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"HTTP/x", b""])
        return Case(made.sent.replace(b"HTTP/1.1", version, 1), False, made.method)

    def raw(self, draw: random.Random) -> Case:
        """A request with a few bytes changed, removed or added."""
        sent = bytearray(self.described(draw).sent if draw.random() < 0.7 else self.headers(draw).sent)
        if b"/api/toy" in sent:
            return Case(b"\x16\x03\x01" + draw.randbytes(200), False)  # TLS
        for _ in range(draw.choice((1, 1, 2, 5, 20))):
            place = draw.randrange(len(sent) or 1)
            sent[place : place + draw.choice((0, 1, 1, 4))] = draw.choice(
                (b"", b"\r\n", b"\x00", b"\xff", b":", b" ", draw.randbytes(3))
            )
        return Case(bytes(sent), False)

    def framing(self, draw: random.Random) -> Case:
        """Half-open, pipelined, chunked."""
        whole = self.request("POST", self.target(draw), self.encoded({"text": "apple baby"}, draw))
        kept = whole.sent.replace(b"Connection: close\r\n", b"")
        chunked = kept[: kept.index(b"Content-Length")] + b"Transfer-Encoding: chunked\r\n\r\n"
        get = self.request("GET", "/api/models")
        kind = draw.randrange(8)
        if kind == 0:
            return Case(whole.sent[: draw.randrange(len(whole.sent))], False)
        if kind == 1:
            return Case(kept * draw.choice((1, 5, 40)) + get.sent, True)
        if kind == 2:
            return Case(kept + draw.randbytes(50), False)
        if kind == 3:
            return Case(
                chunked + draw.choice((b"zz\r\n", b"-1\r\n", b"F" * 30 + b"\r\n", b"5\r\nab", b"5;" + b"x" * 20000)),
                False,
            )
        if kind == 4:
            pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"text": "apple"}')
            return Case(
                chunked.replace(b"\r\nTransfer", b"\r\nConnection: close\r\nTransfer") + pieces + b"0\r\n\r\n", True
            )
        if kind == 5:
            return Case(chunked + b"10000\r\n" + b"a" * 65536 + b"\r\n" * 3, False)
        if kind == 6:
            return Case(kept.replace(b"Content-Length: ", b"Content-Length: 9"), False)
        return Case(
            b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1000, False
        )
