"""The codec, which converts plain sends. In a release, ``kits/compiled/codec.c`` replaces this module.

Each function may return None for any input, which its caller then converts itself. So the code in C handles
only what is usual and certainly valid, and its callers word all errors. Here, callers convert everything.
"""

from typing import Any

Send = tuple[int, int, int, str, tuple[Any, ...]]
"""Opaque, flag, version, language, and the values of the ext fields ``a`` to ``m``."""


def read_send(header: bytes, code: int) -> Send | None:  # noqa: ARG001
    """Read the JSON header of a send with this request code."""
    return None


def read_properties(text: str) -> dict[str, str] | None:  # noqa: ARG001
    """Read the properties in a client's string. Those without a name or value are left out."""
    return None


def write_properties(properties: dict[str, str], limit: int) -> str | None:  # noqa: ARG001
    """Write properties as a string of at most ``limit`` bytes."""
    return None
