"""Read a request's ext fields into the class that declares its header.

A field's name on the wire is its name here in camel case, unless the request says otherwise. Fields without a
default are mandatory.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from mocketmq.errors import InvalidArgumentError

Int32 = Annotated[int, 32]
"""A number that Java reads as an Integer; every other number is a Long."""


class NoHeader(NamedTuple):
    """Header of requests without ext fields, or with none that matters here."""


class TopicHeader(NamedTuple):
    """Header of requests that name only a topic."""

    topic: str


class GroupHeader(NamedTuple):
    """Header of requests that name only a group."""

    group: str


class ConsumerGroupHeader(NamedTuple):
    """The same, where upstream calls the field ``consumerGroup``."""

    consumer_group: str


def _integer(bits: int) -> Callable[[str], int]:
    limit = 1 << bits - 1

    def read(text: str) -> int:
        number = int(text)
        if not -limit <= number < limit:
            raise ValueError(text)
        return number

    return read


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
"""The C++ client of 1.2.4 sends numbers. Upstream takes its 1 for false, which breaks its batches."""


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


_Field = tuple[str, Callable[[str], Any], str, bool, Any]
"""Its name on the wire, how it is read, what is allowed, whether it is mandatory, and its default.

Not a named tuple: those take twice as long to unpack.
"""


class HeaderReader:
    """Reads the headers of one kind of request."""

    def __init__(self, header: type[Any], names: Mapping[str, str]) -> None:
        self._make: Callable[[list[Any]], Any] = header._make
        self._fields = list(_fields(header, names))

    def read(self, ext: Mapping[str, str]) -> Any:
        """The header in these ext fields. Unknown fields are ignored: any request may carry more.

        Raises InvalidArgumentError for a field that is missing, in upstream's words, or cannot be read.
        """
        values = []
        for name, read, allowed, is_mandatory, default in self._fields:
            text = ext.get(name)
            if text is None:
                if is_mandatory:
                    raise InvalidArgumentError(name, None, allowed, f"the custom field <{name}> is null")
                values.append(default)
                continue
            try:
                values.append(read(text))
            except (ValueError, KeyError):
                raise InvalidArgumentError(name, text, allowed) from None
        return self._make(values)


def _fields(header: type[Any], names: Mapping[str, str]) -> Sequence[_Field]:
    kinds: dict[Any, tuple[Callable[[str], Any], str]] = {
        str: (str, "text"),
        int: (_integer(64), "a whole number of 64 bits"),
        Int32: (_integer(32), "a whole number of 32 bits"),
        bool: (_boolean, "true or false"),
    }
    defaults = header._field_defaults
    fields: list[_Field] = []
    for name, annotation in header.__annotations__.items():
        kind = next(kind for kind in kinds if annotation in (kind, kind | None))
        first, *others = name.split("_")
        wire = names.get(name, first + "".join(map(str.capitalize, others)))
        fields.append((wire, *kinds[kind], name not in defaults, defaults.get(name)))
    return fields
