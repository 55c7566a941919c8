"""The document says what the server does: checked against the routes and against real requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from regard.inspect.interventions import KINDS
from regard.serve.api import ENDPOINTS, Api
from regard.serve.openapi import describe_api

DOCUMENT = describe_api()


def test_it_is_served(client: Any) -> None:
    reply = client.get("/api/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == DOCUMENT


def test_every_endpoint_is_there_and_is_answered_by_somebody() -> None:
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
    schema: dict[str, Any] = body["content"]["application/json"]["schema"]
    return schema


def test_the_body_of_a_trace() -> None:
    schema = body_schema("/api/trace")
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False
    whole_numbers = {"type": "array", "items": {"type": "integer"}}
    assert schema["properties"]["tgt_ids"] == {"anyOf": [whole_numbers, {"type": "null"}], "default": None}
    assert schema["properties"]["model"] == {"type": "string", "default": "0"}
    assert schema["properties"]["interventions"]["items"] == {"$ref": "#/components/schemas/Intervention"}
    query = DOCUMENT["paths"]["/api/trace/{trace}/next"]["get"]["parameters"]
    assert [(one["name"], one["required"]) for one in query] == [("trace", True), ("step", True), ("k", False)]


def test_every_kind_of_intervention_is_described() -> None:
    choices = DOCUMENT["components"]["schemas"]["Intervention"]["oneOf"]
    assert [choice["properties"]["kind"]["const"] for choice in choices] == [kind.kind for kind in KINDS]
    weight = next(choice for choice in choices if choice["properties"]["kind"]["const"] == "weight")
    assert set(weight["required"]) == {"where", "head", "row", "column", "value", "kind"}
    assert weight["properties"]["value"] == {"type": "number"}


@pytest.mark.parametrize("path", ["/api/translate", "/api/translate/lines", "/api/beam", "/api/trace", "/api/tokens"])
def test_a_request_with_every_property_is_taken_and_one_more_is_not(client: Any, path: str) -> None:
    properties = body_schema(path)["properties"]
    values = {"text": "apple baby", "options": {"beam": 2}, "n_best": 1}
    body = {name: values.get(name, schema.get("default")) for name, schema in properties.items()}
    assert client.post(path, body).status == 200
    assert client.post(path, {**body, "more": 1}).status == 422
