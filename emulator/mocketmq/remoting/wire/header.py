"""Reads a request's ext fields into the class that declares its header.

A field's name on the wire is its name in the class, converted to camel case, unless the request declares
another name. Fields without a default are mandatory.
"""

from collections.abc import Callable, Mapping
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
"""Number of texts of a kind whose values are remembered, because most repeat from request to request."""
_LONGEST_REMEMBERED: Final = 20
"""Maximum length of a remembered text, enough for any number. Spaces could make texts as long as a header."""

_Parser = Callable[[str], Any]


class _Values(dict[str, Any]):
    """Values by their texts. A text that is not remembered is parsed, which raises ValueError or KeyError."""

    def __init__(self, parse: _Parser) -> None:
        super().__init__()
        self.parse = parse

    def __missing__(self, text: str) -> Any:
        value = self.parse(text)
        if len(text) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[text] = value
        return value


def _integer(bits: int) -> _Parser:
    limit = 1 << bits - 1

    def parse(text: str) -> int:
        number = int(text)
        if not -limit <= number < limit:
            raise ValueError(text)
        return number

    return parse


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
"""Texts of booleans. C++ client 1.2.4 sends numbers; RocketMQ reads its 1 as false and breaks its batches."""


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


_KINDS: Final[dict[Any, tuple[_Values | None, str]]] = {
    str: (None, "text"),
    int: (_Values(_integer(64)), "a whole number of 64 bits"),
    Int32: (_Values(_integer(32)), "a whole number of 32 bits"),
    bool: (_Values(_boolean), "true or false"),
}
"""The values of each type by their texts (None for text), and a description of the allowed values."""


class HeaderReader:
    """Reads the headers of one kind of request.

    ``fields`` has the values of each field by their texts (None for text), and the allowed values in words.
    """

    def __init__(self, header: type[RequestHeader], names: Mapping[str, str]) -> None:
        self._header = header
        self.fields: dict[str, tuple[_Values | None, str]] = {}  # by name on the wire
        self._mandatory: list[tuple[str, _Values | None]] = []  # precede the optional ones in every class
        self._optional: list[tuple[str, _Values | None, Any]] = []  # with their defaults
        declared, defaults = header.__struct_fields__, header.__struct_defaults__
        default_of = dict(zip(declared[len(declared) - len(defaults) :], defaults, strict=True))
        kinds = get_type_hints(header, include_extras=True)
        for name in declared:
            kind = next(kind for kind in _KINDS if kinds[name] in (kind, kind | None))
            first, *others = name.split("_")
            wire = names.get(name, first + "".join(map(str.capitalize, others)))
            values, _ = self.fields[wire] = _KINDS[kind]
            if name in default_of:
                self._optional.append((wire, values, default_of[name]))
            else:
                self._mandatory.append((wire, values))

    def read(self, ext: Mapping[str, str]) -> Any:
        """Read the header from ext fields. Unknown fields are ignored, because any request may have some.

        Raises InvalidArgumentError for an invalid field, and with RocketMQ's text for a missing one.
        """
        get = ext.get
        try:
            read = [ext[name] if values is None else values[ext[name]] for name, values in self._mandatory]
            read += [
                default if (text := get(name)) is None else text if values is None else values[text]
                for name, values, default in self._optional
            ]
        except (ValueError, KeyError):
            raise self._error(ext) from None
        return self._header(*read)

    def _error(self, ext: Mapping[str, str]) -> InvalidArgumentError:
        """The error for the first field that is missing or invalid."""
        for position, (name, (values, allowed)) in enumerate(self.fields.items()):
            text = ext.get(name)
            if text is None and position < len(self._mandatory):
                return InvalidArgumentError(name, None, allowed, f"the custom field <{name}> is null")
            if text is not None and values is not None:
                try:
                    values.parse(text)
                except (ValueError, KeyError):
                    return InvalidArgumentError(name, text, allowed)
        raise AssertionError("every field is valid")
