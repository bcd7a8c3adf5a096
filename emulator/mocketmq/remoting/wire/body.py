"""Reading the JSON bodies of requests, as leniently as upstream does (sheet 2.0)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson

JsonObject = Mapping[str, Any]

MAX_TEXT: Final = 1_024
"""Characters of a name or an id: others are told of it, in frames that have to hold it."""
_LIMIT: Final = 1 << 63
"""What Java has no number for, SQLite refuses, with all that others write in the same transaction."""


def object_of(content: bytes) -> JsonObject:
    """The body, which must be an object; nothing is an empty one. Raises InvalidArgumentError, as others."""
    body = fastjson.loads(content) if content else {}
    if not isinstance(body, Mapping):
        raise InvalidArgumentError("body", body, "a JSON object")
    return body


def objects_in(body: JsonObject, name: str) -> Iterator[JsonObject]:
    """The objects of a list that may be missing."""
    found = body.get(name) or ()
    if not isinstance(found, list | tuple):
        raise InvalidArgumentError(name, found, "a list of JSON objects")
    for one in found:
        if not isinstance(one, Mapping):
            raise InvalidArgumentError(name, one, "a list of JSON objects")
        yield one


def text_in(body: JsonObject, name: str) -> str:
    """A name or an id, which must be there."""
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise InvalidArgumentError(name, value, f"text of 1 to {MAX_TEXT} characters")
    return value


def whole_in(body: JsonObject, name: str) -> int:
    """A whole number, 0 if it is missing. C++ clients write long ones as text."""
    value = body.get(name) or 0
    try:
        number = int(value)
        if not -_LIMIT <= number < _LIMIT:
            raise ValueError(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(name, value, "a whole number of 64 bits") from None
    return number
