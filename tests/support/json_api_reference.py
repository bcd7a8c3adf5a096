"""Generate docs/json-api-reference.md from OpenAPI: ``python -m tests.support.json_api_reference``."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from mocketmq.http_api.openapi import document
from mocketmq.http_api.route import Api
from mocketmq.http_api.server import route_groups
from mocketmq.settings import Settings
from tests.support.markdown import marked_up, paragraphs, table, wrapped

PAGE = Path(__file__).parents[2] / "docs" / "json-api-reference.md"

_INTRODUCTION = """\
# The JSON API

Each route of the broker's HTTP port with its parameters, body, answer and errors. By default, the API is at
<http://127.0.0.1:9877>. A running broker shows its routes at `/docs`, where you can try them, and has an
OpenAPI document at `/openapi.json`. The [Python clients](python-api.md) and the [command
line](command-line-reference.md) use this API.

- Parameters of a path are required, and so are the fields and the parameters of a query that a * marks.
- Names that end in `_ms` are milliseconds, or instants in epoch milliseconds on the broker's clock. Names
  that end in `_us` are microseconds.
- Limits that depend on a setting are those of its default.
- If the broker [requires credentials](access-control.md#the-json-api), it answers 401 to a request without
  valid ones, and 403 if the user may not do this.

An error is a [Problem](#problem), with the media type `application/problem+json`. [Errors](errors.md) lists
its types. Any route may answer with these statuses, 413 only if it takes a body:

"""
_CLIENTS = """\
## Clients for other languages

The document is fit for generators of clients. For TypeScript, openapi-typescript makes types from a running
broker, which openapi-fetch uses:

```
npx openapi-typescript http://127.0.0.1:9877/openapi.json -o api.d.ts --default-non-nullable false
```

openapi-generator 7.14 makes clients for Java, by the HTTP client of the JDK, and for Go:

```
openapi-generator-cli generate -g java --library native -i http://127.0.0.1:9877/openapi.json -o client \\
  --schema-mappings FaultIn_by=Object
openapi-generator-cli generate -g go --package-name mocketmq -i http://127.0.0.1:9877/openapi.json -o client
```

The mapping is for the field `by` of a fault, which takes text or a list of texts; without it, the generated
Java does not compile. Choose `native`: clients of the generator's default library for Java refuse messages
whose `compression` is null. Tests generate and use all three clients.
"""
_GENERATED = "This page is generated from the code by `python -m tests.support.json_api_reference`."
_COMMON = ("400", "413", "500", "503")
_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "object"}
_UNLIMITED = (1 << 31) - 1
"""From here on, a maximum is that of a type of numbers, and not worth a reader's time."""


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a broker with default settings."""
    settings = Settings()
    api = SimpleNamespace(route_groups=route_groups(settings), settings=settings)
    return cast(dict[str, Any], json.loads(msgspec.json.encode(document(cast(Api, api)))))


def page() -> str:
    """Return the text of the page."""
    whole = openapi()
    operations = [
        (path, method.upper(), operation)
        for path, methods in whole["paths"].items()
        for method, operation in methods.items()
    ]
    common = _common([operation for _, _, operation in operations])
    errors = "\n".join(f"- {status}: {marked_up(reason)}." for status, reason in common.items())
    blocks = [_INTRODUCTION + errors, _GENERATED, _CLIENTS.rstrip(), "## Parameters of paths"]
    in_paths = {
        each["name"]: each["schema"]
        for _, _, operation in operations
        for each in operation.get("parameters", ())
        if each["in"] == "path"
    }
    blocks += table(("parameter", "allowed", ""), (_row(name, in_paths[name]) for name in sorted(in_paths)))
    for tag in whole["tags"]:
        blocks += [f"## {tag['description']}"]
        for path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                blocks += _route(path, method, operation, common)
    schemas = whole["components"]["schemas"]
    sent = set(_sent([operation for _, _, operation in operations], schemas))
    blocks.append("## Bodies of requests")
    for name in schemas:
        if name in sent and schemas[name].get("properties"):
            blocks += [*_described(name, schemas[name]), *_fields(schemas[name])]
    blocks.append("## Answers")
    for name in schemas:
        if name not in sent:
            blocks += [*_described(name, schemas[name]), _listed(schemas[name])]
    return "\n\n".join(blocks) + "\n"


def _common(operations: list[dict[str, Any]]) -> dict[str, str]:
    """Return the usual descriptions of errors that most routes may return, by status."""
    common = {}
    for status in _COMMON:
        found = (
            each["responses"][status]["description"] for each in operations if status in each["responses"]
        )
        [(common[status], _)] = Counter(found).most_common(1)
    return common


def _route(path: str, method: str, operation: dict[str, Any], common: dict[str, str]) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield wrapped(f"`{method} {path}`{_body(operation)} returns {_answer(operation)}")
    if operation["description"]:
        yield paragraphs(operation["description"])
    rows = (
        _row(each["name"], each["schema"], is_required=each["required"])
        for each in operation.get("parameters", ())
        if each["in"] == "query"
    )
    yield from table(("parameter", "allowed", ""), rows)
    errors = [
        wrapped(f"- {status}: {marked_up(each['description'])}.", indent="  ")
        for status, each in operation["responses"].items()
        if status >= "400" and common.get(status) != each["description"]
    ]
    if errors:
        yield "\n".join(errors)


def _body(operation: dict[str, Any]) -> str:
    if "requestBody" not in operation:
        return ""
    reference = operation["requestBody"]["content"]["application/json"]["schema"]
    if reference["$ref"].endswith("/NoInput"):
        return ""
    return f" with {'' if operation['requestBody']['required'] else 'or without '}{_type(reference)}"


def _answer(operation: dict[str, Any]) -> str:
    [(status, answer)] = [
        (status, each) for status, each in operation["responses"].items() if each["description"] == "Success"
    ]
    [(media_type, content)] = answer["content"].items()
    is_object = "$ref" in content["schema"]
    what = _type(content["schema"]) if is_object else f"`{media_type}`"
    created = ", or 201 if this creates it" if "201" in operation["responses"] and status != "201" else ""
    events = ", ".join(f"`{name}` ({_type(each)})" for name, each in content.get("x-events", {}).items())
    return f"{what} and status {status}{created}.{f' Events: {events}.' if events else ''}"


def _sent(operations: list[dict[str, Any]], schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the types that clients send, also within others."""
    bodies = [
        each["requestBody"]["content"]["application/json"] for each in operations if "requestBody" in each
    ]
    waiting = [name for body in bodies for name in _references(body)]
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            yield name
            waiting += _references(schemas[name])


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)


def _described(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    if "description" in schema:
        yield paragraphs(schema["description"])


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the table of a type's fields, with limits, defaults and descriptions."""
    required = schema.get("required", ())
    rows = (_row(name, each, is_required=name in required) for name, each in schema["properties"].items())
    yield from table(("field", "allowed", ""), rows)


def _listed(schema: dict[str, Any]) -> str:
    """Return the fields of a type as a sentence."""
    if "enum" in schema:
        return wrapped(f"One of {_type(schema)}.")
    return wrapped("; ".join(f"`{name}`: {_type(each)}" for name, each in schema["properties"].items()) + ".")


def _row(name: str, schema: dict[str, Any], *, is_required: bool = False) -> tuple[str, ...]:
    description = schema.get("description") or schema.get("items", {}).get("description", "")
    return f"`{name}`{' *' if is_required else ''}", _allowed(schema), marked_up(description)


def _allowed(schema: dict[str, Any]) -> str:
    parts = [_type(schema), *_limits(schema)]
    if "default" in schema:
        default = schema["default"]
        parts.append(f"default `{default if isinstance(default, str) else json.dumps(default)}`")
    return ", ".join(part for part in parts if part)


def _limits(schema: dict[str, Any]) -> Iterator[str]:
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " entries"),
    ):
        least, most = schema.get(low), schema.get(high)
        if least is not None and -least >= _UNLIMITED:
            least = None
        if most is not None and most >= _UNLIMITED:
            most = None
        if unit and most is not None:
            yield f"{f'{least:,}' if least else 'up'} to {most:,}{unit}"
        elif unit and least is not None:
            yield "not empty"
        elif most is not None:
            yield f"{least or 0:,} to {most:,}"
        elif least is not None:
            yield f"from {least:,}"
    if "x-setting" in schema:
        yield f"limited by the setting `{schema['x-setting']}`"


def _type(schema: dict[str, Any]) -> str:
    """Return what a value is, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        *others, last = (f"`{value}`" for value in schema["enum"])
        return f"{', '.join(others)} or {last}" if others else last
    if "prefixItems" in schema:
        return f"({', '.join(map(_type, schema['prefixItems']))})"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "contentEncoding" in schema:
        return "text in base64"
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return f"object of {_type(inner)}"
    return _WORDS.get(schema.get("type", ""), str(schema.get("type", "any JSON")))


if __name__ == "__main__":
    PAGE.write_text(page())
