"""Builds responses from objects of the broker, whose fields have the same names but other units."""

from typing import Any, TypeVar

import msgspec

from mocketmq.clock import US_PER_MS

_A = TypeVar("_A", bound=msgspec.Struct)


def to_ms(instant_us: int | None) -> int | None:
    """Convert microseconds to whole milliseconds; None stays None."""
    return None if instant_us is None else instant_us // US_PER_MS


def answer_from(kind: type[_A], source: object, **others: Any) -> _A:
    """Build a response from the attributes of ``source``, except for the fields in ``others``.

    A field such as ``due_ms`` is the attribute ``due_us``, converted to milliseconds.
    """
    for name in kind.__struct_fields__:
        if name not in others:
            is_ms = name.endswith("_ms")
            value = getattr(source, f"{name.removesuffix('_ms')}_us" if is_ms else name)
            others[name] = to_ms(value) if is_ms else value
    return kind(**others)
