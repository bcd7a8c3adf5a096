"""Read the JSON bodies of requests, as leniently as upstream does."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson

JsonObject = Mapping[str, Any]

MAX_TEXT: Final = 1_024
"""Characters of a name or an id, which frames to other clients have to hold."""
_LIMIT: Final = 1 << 63
"""Numbers outside Java's long would fail a whole transaction of SQLite's."""


def object_of(content: bytes) -> JsonObject:
    """The body, which must be an object or empty. Like all of these it raises InvalidArgumentError."""
    body = fastjson.loads(content) if content else {}
    if not isinstance(body, Mapping):
        raise InvalidArgumentError("body", body, "a JSON object")
    return body


def objects_in(body: JsonObject, name: str) -> Iterator[JsonObject]:
    """The objects of a list; none if the list is missing."""
    found = body.get(name) or ()
    if not isinstance(found, list | tuple):
        raise InvalidArgumentError(name, found, "a list of JSON objects")
    for one in found:
        if not isinstance(one, Mapping):
            raise InvalidArgumentError(name, one, "a list of JSON objects")
        yield one


def text_in(body: JsonObject, name: str) -> str:
    """A name or an id, which must not be missing."""
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise InvalidArgumentError(name, value, f"text of 1 to {MAX_TEXT} characters")
    return value


def whole_in(body: JsonObject, name: str) -> int:
    """A whole number, 0 if it is missing. C++ clients write longs as text."""
    value = body.get(name) or 0
    try:
        number = int(value)
        if not -_LIMIT <= number < _LIMIT:
            raise ValueError(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(name, value, "a whole number of 64 bits") from None
    return number
