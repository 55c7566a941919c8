"""The document says what the server does: checked against the routes and against real requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from regard.inspect.interventions import KINDS
from regard.serve.api import Api
from regard.serve.endpoints import ENDPOINTS
from regard.serve.openapi import describe_api

DOCUMENT = describe_api()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def test_it_is_served(client: Any) -> None:
    reply = client.get("/api/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == DOCUMENT


def test_every_endpoint_has_a_method() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    assert len({endpoint.name for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert all(callable(getattr(Api, endpoint.name)) for endpoint in ENDPOINTS)


def everything(tree: Any) -> Iterator[Any]:
    yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from everything(inner)


def test_every_reference_leads_somewhere() -> None:
    references = [tree["$ref"] for tree in everything(DOCUMENT) if isinstance(tree, dict) and "$ref" in tree]
    assert references
    for reference in references:
        place = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_operations_are_whole() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"].endswith(".")
            assert {"200", "422", "503"} <= set(operation["responses"])
            parameters = operation.get("parameters", [])
            named = {one["name"] for one in parameters if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            assert ("requestBody" in operation) == (method == "post")


def body_schema(path: str) -> dict[str, Any]:
    body = DOCUMENT["paths"][path]["post"]["requestBody"]
    return resolve(body["content"]["application/json"]["schema"])


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    return found


def test_the_body_of_a_trace() -> None:
    schema = body_schema("/api/trace")
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False
    whole_numbers = {"type": "array", "items": {"type": "integer"}}
    tgt_ids = schema["properties"]["tgt_ids"]
    assert (tgt_ids["anyOf"], tgt_ids["default"]) == ([whole_numbers, {"type": "null"}], None)
    assert tgt_ids["description"] == "null: those that a search finds"
    assert schema["properties"]["model"] == {"type": "string", "default": "0"}
    assert schema["properties"]["interventions"]["items"] == {"$ref": "#/components/schemas/Intervention"}
    assert schema["properties"]["interventions"]["maxItems"] == 512
    options = resolve(schema["properties"]["options"])
    assert (options["required"], options["properties"]["beam"]["maximum"]) == ([], 100)
    query = DOCUMENT["paths"]["/api/trace/{trace}/next"]["get"]["parameters"]
    assert [(one["name"], one["required"]) for one in query] == [("trace", True), ("step", True), ("k", False)]


def test_every_kind_of_intervention_is_described() -> None:
    choices = [resolve(choice) for choice in SCHEMAS["Intervention"]["oneOf"]]
    assert [choice["properties"]["kind"]["const"] for choice in choices] == [kind.kind for kind in KINDS]
    weight = next(choice for choice in choices if choice["properties"]["kind"]["const"] == "weight")
    assert set(weight["required"]) == {"where", "head", "row", "column", "value", "kind"}
    assert weight["properties"]["value"] == {"type": "number", "minimum": 0.0, "maximum": 1.0}


@pytest.mark.parametrize("path", ["/api/translate", "/api/translate/lines", "/api/beam", "/api/trace", "/api/tokens"])
def test_a_request_with_every_property_is_taken_and_one_more_is_not(client: Any, path: str) -> None:
    properties = body_schema(path)["properties"]
    values = {"text": "apple baby", "options": {"beam": 2}, "n_best": 1, "interventions": []}
    body = {name: values.get(name, schema.get("default")) for name, schema in properties.items()}
    assert client.post(path, body).status == 200
    assert client.post(path, {**body, "more": 1}).status == 422


def check(schema: dict[str, Any], value: Any, path: str = "") -> None:
    """Compare JSON with its schema: every key described, every required key there, every type right."""
    if "$ref" in schema:
        check(resolve(schema), value, path)
    elif choices := schema.get("oneOf", schema.get("anyOf")):
        assert any(fits(choice, value) for choice in choices), (path, value)
    elif schema.get("type") == "object":
        assert isinstance(value, dict), path
        assert set(schema.get("required", ())) <= set(value), path
        rest = schema.get("additionalProperties", True)
        for key, inner in value.items():
            described = schema.get("properties", {}).get(key, rest)
            assert described is not False, f"{path}.{key} is not described"
            if isinstance(described, dict):
                check(described, inner, f"{path}.{key}")
    elif schema.get("type") == "array":
        assert isinstance(value, list), path
        for number, inner in enumerate(value):
            check(schema["items"], inner, f"{path}[{number}]")
    elif "const" in schema or "enum" in schema:
        assert value in schema.get("enum", [schema.get("const")]), (path, value)
    else:
        types: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
        kinds = types.get(schema["type"], type(None))
        assert isinstance(value, kinds), (path, value)
        assert not isinstance(value, bool) or kinds is bool, (path, value)


def fits(schema: dict[str, Any], value: Any) -> bool:
    try:
        check(schema, value)
    except AssertionError:
        return False
    return True


def test_every_json_answer_is_as_described(client: Any) -> None:
    text = "apple baby bird"
    interventions = [{"kind": "head", "where": "decoder.0.cross", "head": 0}]
    header, _ = client.post("/api/trace", {"text": text, "interventions": interventions}).arrays()
    [run] = client.get("/api/runs").json["runs"]
    requests: dict[str, tuple[str, Any]] = {
        "/health": ("/health", None),
        "/api/models": ("/api/models", None),
        "/api/tokens": ("/api/tokens", {"text": text}),
        "/api/translate": ("/api/translate", {"text": text, "n_best": 2}),
        "/api/beam": ("/api/beam", {"text": text}),
        "/api/trace/{trace}/next": (f"/api/trace/{header['trace']}/next?step=0", None),
        "/api/trace/{trace}/block": (f"/api/trace/{header['trace']}/block?side=decoder&layer=0&position=0", None),
        "/api/attention-summary": ("/api/attention-summary", {"trace": header["trace"]}),
        "/api/effects": ("/api/effects", {"text": text, "tgt_ids": [5, 6], "variants": [interventions]}),
        "/api/texts": ("/api/texts", None),
        "/api/runs": ("/api/runs", None),
        "/api/runs/{run}/metrics": (f"/api/runs/{run['name']}/metrics", None),
    }
    started = {"/api/toy"}  # test_toy.py
    assert {*requests, *started} == {endpoint.path for endpoint in ENDPOINTS if endpoint.form == "json"}
    for path, (address, body) in requests.items():
        reply = client.get(address) if body is None else client.post(address, body)
        assert reply.status == 200, reply.body
        operation = DOCUMENT["paths"][path]["get" if body is None else "post"]
        check(operation["responses"]["200"]["content"]["application/json"]["schema"], reply.json, path)
    error = client.get("/api/nothing").json
    check(SCHEMAS["ErrorMessage"], error)


def test_every_binary_header_is_as_described(client: Any) -> None:
    text = "apple baby bird"
    interventions = [{"kind": "head", "where": "decoder.0.cross", "head": 0}]
    trace = client.post("/api/trace", {"text": text, "interventions": interventions})
    [run] = client.get("/api/runs").json["runs"]
    name = trace.arrays()[0]["trace"]
    replies = {
        ("/api/trace", "post"): trace,
        ("/api/trace/{trace}/tensor", "get"): client.get(f"/api/trace/{name}/tensor?path=logits"),
        ("/api/models/{model}/parameter", "get"): client.get("/api/models/0/parameter?name=output.weight&rows=1"),
        ("/api/runs/{run}/probes", "get"): client.get(f"/api/runs/{run['name']}/probes"),
    }
    for (path, method), reply in replies.items():
        content = DOCUMENT["paths"][path][method]["responses"]["200"]["content"]["application/octet-stream"]
        header, _ = reply.arrays()
        for entry in header.pop("arrays"):
            check(SCHEMAS["ArrayEntry"], entry)
        check(content["schema"]["x-header"], header, path)


@pytest.mark.parametrize("changed", [{"probability": "1"}, {"more": 1}, {"id": None}])
def test_the_comparison_with_the_schema_can_fail(changed: dict[str, Any]) -> None:
    piece = {"id": 5, "piece": "a", "probability": 0.5}
    assert fits(SCHEMAS["LikelyPiece"], piece)
    assert not fits(SCHEMAS["LikelyPiece"], {**piece, **changed})
    assert not fits(SCHEMAS["LikelyPiece"], {"id": 5, "piece": "a"})
