"""Reads the JSON bodies of requests as leniently as RocketMQ. All functions raise InvalidArgumentError."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson

JsonObject = Mapping[str, Any]

MAX_TEXT: Final = 1_024
"""Maximum length of a name or an id in characters. Names and ids must fit into frames to other clients."""
_LIMIT: Final = 1 << 63
"""Limit of Java's long. A number outside it would make a whole SQLite transaction fail."""


def object_of(content: bytes) -> JsonObject:
    """Parse a body, which must be a JSON object or empty."""
    body = fastjson.loads(content) if content else {}
    if not isinstance(body, Mapping):
        raise InvalidArgumentError("body", body, "a JSON object")
    return body


def objects_in(body: JsonObject, name: str) -> Iterator[JsonObject]:
    """Yield the objects in a list. A missing list counts as empty."""
    found = body.get(name) or ()
    if not isinstance(found, list | tuple):
        raise InvalidArgumentError(name, found, "a list of JSON objects")
    for one in found:
        if not isinstance(one, Mapping):
            raise InvalidArgumentError(name, one, "a list of JSON objects")
        yield one


def text_in(body: JsonObject, name: str) -> str:
    """Return a name or an id, which is mandatory."""
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise InvalidArgumentError(name, value, f"text of 1 to {MAX_TEXT} characters")
    return value


def whole_in(body: JsonObject, name: str) -> int:
    """Return a whole number, or 0 if it is missing. C++ clients write longs as text."""
    value = body.get(name) or 0
    try:
        number = int(value)
        if not -_LIMIT <= number < _LIMIT:
            raise ValueError(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(name, value, "a whole number of 64 bits") from None
    return number
