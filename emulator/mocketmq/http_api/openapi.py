"""Generates the OpenAPI 3.1 document from the server's routes."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final, cast

import msgspec

from mocketmq import __version__
from mocketmq.errors import wire_codes
from mocketmq.http_api.json_response import JSON
from mocketmq.http_api.problem import MEDIA_TYPE, Problem
from mocketmq.http_api.route import Api, Route
from mocketmq.settings import Settings

_REFERENCE = "#/components/schemas/{name}"
_REASONS = {
    400: "A field is missing, unknown, or has a value that is not allowed",
    401: "The credentials are missing or wrong",
    413: "The body is too large",
    500: "A defect in mocketmq",
    503: "The store failed, or the broker is stopping; nothing was changed",
}
"""Descriptions of problems that are not specific to a route."""

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1

Document = dict[str, Any]

_SCHEMES: Final[Mapping[str, Document]] = {
    "token": {"type": "http", "scheme": "bearer"},
    "user": {"type": "http", "scheme": "basic"},
}


def document(api: Api) -> Document:
    """The OpenAPI document of the API."""
    routes = [route for group in api.route_groups for route in group.routes]
    paths: dict[str, Document] = {}
    security = _security(api.settings)
    for group in api.route_groups:
        for route in group.routes:
            operation = _operation(route, group.name, security)
            paths.setdefault(route.path, {})[route.method.lower()] = operation
    components: Document = {"schemas": _schemas(routes)}
    whole: Document = {
        "openapi": "3.1.0",
        "info": {
            "title": "mocketmq",
            "version": __version__,
            "description": "RocketMQ for test environments. Instants are epoch milliseconds (`_ms`) or epoch"
            " microseconds (`_us`) on the broker's clock, which may have been moved.",
        },
        "tags": [{"name": group.name, "description": group.summary} for group in api.route_groups],
        "paths": paths,
        "components": components,
    }
    if security:
        components["securitySchemes"] = {name: _SCHEMES[name] for name in security}
        whole["security"] = [{name: []} for name in security]
        if api.settings.token is None:
            whole["security"].append({})  # requests from the broker's machine need no credentials
    return cast("Document", _widened(whole))


def _security(settings: Settings) -> Sequence[str]:
    """The names of the security schemes that the broker supports."""
    return [
        *(["token"] if settings.token is not None else []),
        *(["user"] if settings.acl is not None else []),
    ]


def _operation(route: Route, tag: str, security: Sequence[str]) -> Document:
    operation: Document = {
        "operationId": route.handler.__name__,
        "tags": [tag],
        "summary": route.summary,
        "description": cleandoc(route.handler.__doc__ or ""),
        "responses": _responses(route, security),
    }
    if parameters := list(_parameters(route)):
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {JSON: {"schema": _reference(route.body)}},
        }
    if security and route.is_open:
        operation["security"] = []
    return operation


def _parameters(route: Route) -> Iterator[Document]:
    schema = msgspec.json.schema(route.parameters)["$defs"][route.parameters.__name__]
    for name, value in schema["properties"].items():
        is_in_path = f"{{{name}}}" in route.path
        yield {
            "name": name,
            "in": "path" if is_in_path else "query",
            "required": is_in_path or name in schema["required"],
            "schema": value,
        }


def _of_media_type(name: str) -> Document:
    if name == JSON:
        return {"type": "object", "additionalProperties": True}
    return {"type": "string"} if name.startswith("text/") else {"type": "string", "format": "binary"}


def _responses(route: Route, security: Sequence[str]) -> Document:
    if isinstance(route.answer, str):
        content: Document = {route.answer: {"schema": _of_media_type(route.answer)}}
        if route.events:
            content[route.answer]["x-events"] = {
                name: _reference(kind) for name, kind in route.events.items()
            }
    else:
        content = {JSON: {"schema": _reference(route.answer)}}
    responses: Document = {str(route.status): {"description": "Success", "content": content}}
    if route.may_create:
        responses["201"] = {"description": "Created", "content": content}
    if route.links:
        responses[str(route.status)]["links"] = {
            name: {"operationId": name, **given} for name, given in route.links.items()
        }
    for status, reason in sorted(_problems(route, security).items()):
        responses[str(status)] = {
            "description": reason,
            "content": {MEDIA_TYPE: {"schema": _reference(Problem)}},
        }
        if status == 401:
            responses["401"]["headers"] = {
                "WWW-Authenticate": {"schema": {"type": "string"}, "required": True}
            }
    return responses


def _problems(route: Route, security: Sequence[str]) -> dict[int, str]:
    """Descriptions of a route's problems, by status."""
    statuses = [400, 500, 503]
    if security and not route.is_open:
        statuses.append(401)
    if route.body is not None:
        statuses.append(413)
    own: dict[int, list[str]] = {}
    if "user" in security and not route.is_open:
        own[403] = ["The user lacks permission"]
    for error in route.errors:
        sentence, _, _ = (error.__doc__ or "").partition(".")
        own.setdefault(wire_codes(error.__new__(error)).http, []).append(sentence)
    return {status: _REASONS[status] for status in statuses} | {
        status: ". ".join(sentences) for status, sentences in own.items()
    }


def _schemas(routes: list[Route]) -> Document:
    bodies = [route.body for route in routes if route.body is not None]
    answers = [route.answer for route in routes if not isinstance(route.answer, str)]
    events = [kind for route in routes for kind in route.events.values()]
    kinds = list(dict.fromkeys([*bodies, *answers, *events, Problem]))
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    for kind in kinds:
        schemas[kind.__name__] |= getattr(kind, "more_schema", {})
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    return schemas


def _widened(part: object) -> object:
    """Declare large integers as 64 bits. Client generators assume 32 bits, too few for instants."""
    if isinstance(part, list):
        return [_widened(one) for one in part]
    if not isinstance(part, dict):
        return part
    widened = {name: _widened(value) for name, value in part.items()}
    if part.get("type") == "integer" and part.get("maximum", _INT64_MAX) > _INT32_MAX:
        widened["format"] = "int64"
    return widened


def _reference(kind: type) -> Document:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
