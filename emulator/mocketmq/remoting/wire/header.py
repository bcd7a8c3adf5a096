"""Reads a request's ext fields into the class that declares its header.

A field's name on the wire is its name in the class, converted to camel case, unless the request declares
another name. Fields without a default are mandatory.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from mocketmq.errors import InvalidArgumentError

Int32 = Annotated[int, 32]
"""A number that Java reads as an Integer. Java reads all other numbers as a Long."""


class RequestHeader(msgspec.Struct):
    """Base of the classes that declare headers. A named tuple would take twice as much memory."""


class NoHeader(RequestHeader):
    """Header of requests without ext fields, or with fields that mocketmq ignores."""


class TopicHeader(RequestHeader):
    """Header of requests that name only a topic."""

    topic: str


class GroupHeader(RequestHeader):
    """Header of requests that name only a group."""

    group: str


class ConsumerGroupHeader(RequestHeader):
    """Header of requests that name only a group, as ``consumerGroup``."""

    consumer_group: str


_REMEMBERED: Final = 1_024
"""Number of texts whose parsed numbers are cached, because most fields repeat from request to request."""
_LONGEST_REMEMBERED: Final = 20
"""Maximum length of a cached text, enough for any number. Spaces could make texts as long as a header."""


def _integer(bits: int) -> Callable[[str], int]:
    limit = 1 << bits - 1

    def parse(text: str) -> int:
        number = int(text)
        if not -limit <= number < limit:
            raise ValueError(text)
        return number

    remembered = lru_cache(_REMEMBERED)(parse)
    return lambda text: remembered(text) if len(text) <= _LONGEST_REMEMBERED else parse(text)


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
"""Texts of booleans. C++ client 1.2.4 sends numbers; RocketMQ reads its 1 as false and breaks its batches."""


@cache
def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


_Parser = Callable[[str], Any]
_KINDS: Final[dict[Any, tuple[_Parser | None, str]]] = {
    str: (None, "text"),
    int: (_integer(64), "a whole number of 64 bits"),
    Int32: (_integer(32), "a whole number of 32 bits"),
    bool: (_boolean, "true or false"),
}
"""The parser of each type (None for text), and a description of the allowed values."""
_Field = tuple[str, _Parser | None, str, bool, Any]
"""A field: name on the wire, parser (None for text), allowed values, whether it is mandatory, and default.

Not a named tuple, because a named tuple takes twice as long to unpack.
"""


class HeaderReader:
    """Reads the headers of one kind of request."""

    def __init__(self, header: type[RequestHeader], names: Mapping[str, str]) -> None:
        self._header = header
        self._fields = list(_fields(header, names))

    def read(self, ext: Mapping[str, str]) -> Any:
        """Read the header from ext fields. Unknown fields are ignored, because any request may have some.

        Raises InvalidArgumentError for an invalid field, and with RocketMQ's text for a missing one.
        """
        values: list[Any] = []
        get, append = ext.get, values.append
        for name, read, allowed, is_mandatory, default in self._fields:
            text = get(name)
            if text is None:
                if is_mandatory:
                    raise InvalidArgumentError(name, None, allowed, f"the custom field <{name}> is null")
                append(default)
            elif read is None:
                append(text)
            else:
                try:
                    append(read(text))
                except (ValueError, KeyError):
                    raise InvalidArgumentError(name, text, allowed) from None
        return self._header(*values)


def _fields(header: type[RequestHeader], names: Mapping[str, str]) -> Sequence[_Field]:
    declared, defaults = header.__struct_fields__, header.__struct_defaults__
    default_of = dict(zip(declared[len(declared) - len(defaults) :], defaults, strict=True))
    kinds = get_type_hints(header, include_extras=True)
    fields: list[_Field] = []
    for name in declared:
        kind = next(kind for kind in _KINDS if kinds[name] in (kind, kind | None))
        first, *others = name.split("_")
        wire = names.get(name, first + "".join(map(str.capitalize, others)))
        fields.append((wire, *_KINDS[kind], name not in default_of, default_of.get(name)))
    return fields
