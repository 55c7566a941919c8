"""The API described by OpenAPI 3.1, made from the table of endpoints and the dataclasses of what they take."""

from __future__ import annotations

import dataclasses
import re
import types
from typing import Any, Literal, Union, assert_never, get_args, get_origin, get_type_hints

from regard import __version__
from regard.config.parsing import is_required
from regard.inspect.interventions import KINDS, Intervention
from regard.serve.api import ENDPOINTS, MEDIA, Endpoint
from regard.serve.requests import Nothing

ERRORS = {
    "400": "The body is not JSON.",
    "404": "There is no such model, trace or run.",
    "413": "The request is too large.",
    "415": "The body is not application/json.",
    "422": "Something in the request is not possible; the sentence says what.",
    "503": "Too much is being asked at once.",
}


def describe_api() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = describe_endpoint(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Regard's explorer",
            "version": __version__,
            "description": "Binary bodies are a little-endian uint32 N, N bytes of JSON, zeros to a multiple of 8, and "
            "then the arrays that the JSON describes, each padded to 8 bytes.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": error_schema(), "Intervention": intervention_schema()}},
    }


def describe_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    media = MEDIA[endpoint.gives]
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    described: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "The answer.", "content": {media: {"schema": answer_schema(endpoint)}}},
            **{code: {"description": text, "content": problem} for code, text in ERRORS.items()},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    schema = object_schema(endpoint.takes)
    if endpoint.method == "GET":
        required = schema["required"]
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": inner}
            for name, inner in schema["properties"].items()
        ]
    elif endpoint.takes is not Nothing:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {**described, "parameters": parameters} if parameters else described


def answer_schema(endpoint: Endpoint) -> dict[str, Any]:
    match endpoint.gives:
        case "json":
            return {"type": "object"}
        case "binary":
            return {"type": "string", "format": "binary"}
        case "lines":
            return {"type": "string", "description": "A JSON object a line."}
        case _:
            assert_never(endpoint.gives)


def object_schema(kind: type[Any]) -> dict[str, Any]:
    """The JSON schema of a dataclass."""
    hints = get_type_hints(kind)
    properties, required = {}, []
    for one in dataclasses.fields(kind):
        properties[one.name] = value_schema(hints[one.name])
        if is_required(one):
            required.append(one.name)
        elif one.default is not dataclasses.MISSING:
            default = one.default
            properties[one.name]["default"] = list(default) if isinstance(default, tuple) else default
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def value_schema(kind: Any) -> dict[str, Any]:
    if kind == tuple[Intervention, ...]:
        return {"type": "array", "items": {"$ref": "#/components/schemas/Intervention"}}
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return {"anyOf": [value_schema(inner), {"type": "null"}]}
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if origin is tuple:
        return {"type": "array", "items": value_schema(get_args(kind)[0])}
    return {"type": {str: "string", int: "integer", float: "number"}.get(kind, "object")}


def intervention_schema() -> dict[str, Any]:
    """One of the kinds, told apart by `kind`, which each must name."""
    choices = []
    for kind in KINDS:
        schema = object_schema(kind)
        schema["properties"]["kind"] = {"const": kind.kind}
        choices.append(schema)
    return {"oneOf": choices}


def error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {"type": "object", "properties": {"error": text, "hint": text}, "required": ["error", "hint"]}
