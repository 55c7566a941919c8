"""The OpenAPI 3.1 document of the API, generated from the table of endpoints and their dataclasses."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, assert_never, get_args, get_origin, is_typeddict

from regard import __version__
from regard.serve.endpoints import ENDPOINTS, MEDIA_TYPES, UNIONS, Endpoint, request_records, response_records
from regard.serve.schema import ApiField, api_fields, docstring, is_record, part_of, union_members

ERRORS = {
    "400": "The body is not JSON.",
    "404": "There is no such model, trace or run.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "A key or a value in the request is not accepted; `error` says which.",
    "503": "Server busy.",
}
BINARY = (
    "A binary body is a little-endian uint32 N, N bytes of JSON (the header), zeros up to a multiple of 8, and then "
    "the arrays, each padded to 8 bytes. The header's `arrays` is a list of ArrayEntry."
)


def describe_api() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = describe_endpoint(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Regard's explorer", "version": __version__, "description": BINARY},
        "paths": paths,
        "components": {"schemas": component_schemas()},
    }


def describe_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    media_type = MEDIA_TYPES[endpoint.form]
    error = {"application/json": {"schema": reference("ErrorMessage")}}
    described: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "The answer.", "content": {media_type: {"schema": response_schema(endpoint)}}},
            **{code: {"description": text, "content": error} for code, text in ERRORS.items()},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    if endpoint.method == "GET":
        parameters += [
            {"name": one.name, "in": "query", "required": one.required, "schema": field_schema(one)}
            for one in api_fields(endpoint.request)
        ]
    else:
        schema = reference(endpoint.request.__name__)
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {**described, "parameters": parameters} if parameters else described


def response_schema(endpoint: Endpoint) -> dict[str, Any]:
    schema = value_schema(endpoint.response)
    match endpoint.form:
        case "json":
            return schema
        case "binary":
            return {"type": "string", "format": "binary", "description": "A binary body.", "x-header": schema}
        case "lines":
            return {"type": "string", "description": "One JSON object per line.", "x-line": schema}
        case _:
            assert_never(endpoint.form)


def component_schemas() -> dict[str, Any]:
    responses = response_records()
    kinds = dict.fromkeys((*request_records(), *responses))
    schemas = {kind.__name__: record_schema(kind, kind in responses) for kind in kinds}
    parts = {mark for kind in kinds for one in api_fields(kind) if (mark := part_of(one.type))}
    for part in sorted(parts, key=lambda part: part.name):
        schemas[part.name] = {**record_schema(part.kind, complete=False), "required": []}
    for name, union in UNIONS.items():
        schemas[name] = {"oneOf": [reference(member.__name__) for member in union_members(union)]}
    return schemas


def record_schema(kind: type[Any], complete: bool) -> dict[str, Any]:
    """The schema of a dataclass or a TypedDict. `complete`: every field of a dataclass is there, as in responses."""
    fields = api_fields(kind)
    complete = complete and not is_typeddict(kind)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: field_schema(one) for one in fields},
        "required": [one.name for one in fields if complete or one.required],
    }
    if not is_typeddict(kind):
        schema["additionalProperties"] = False
    return {**schema, "description": docstring(kind)} if docstring(kind) else schema


def field_schema(one: ApiField) -> dict[str, Any]:
    schema = value_schema(one.type)
    if one.default is not dataclasses.MISSING and not one.required:
        schema["default"] = list(one.default) if isinstance(one.default, tuple) else one.default
    length = "maxItems" if schema.get("type") == "array" else "maxLength"
    names = {"low": "minimum", "high": "maximum", "below": "exclusiveMaximum", "max_length": length}
    schema |= {names[key]: limit for key, limit in one.limits.items() if key in names and limit is not None}
    return {**schema, "description": one.description} if one.description else schema


def value_schema(kind: Any) -> dict[str, Any]:
    origin = get_origin(kind)
    if is_record(kind):
        return reference(kind.__name__)
    if part := part_of(kind):
        return reference(part.name)
    if name := next((name for name, union in UNIONS.items() if union == kind), None):
        return reference(name)
    if members := union_members(kind):
        return {"anyOf": [value_schema(member) for member in members]}
    if origin is Literal:
        [*values] = get_args(kind)
        return {"const": values[0]} if len(values) == 1 else {"type": "string", "enum": values}
    if origin is tuple:
        return {"type": "array", "items": value_schema(get_args(kind)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": value_schema(get_args(kind)[1])}
    types = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    return {"type": types[kind]}


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}
