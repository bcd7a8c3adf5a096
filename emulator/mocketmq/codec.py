"""The codec, which converts plain sends and responses. In a release, ``kits/compiled/codec.c`` replaces it.

Each function may return None for any input, which its caller then converts itself. So the code in C handles
only what is usual and certainly valid, and its callers word all errors. Here, callers convert everything.
"""

from collections.abc import Mapping
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


def write_frame(
    code: int,  # noqa: ARG001
    ext: Mapping[str, str],  # noqa: ARG001
    flag: int,  # noqa: ARG001
    language: str,  # noqa: ARG001
    opaque: int,  # noqa: ARG001
    version: int,  # noqa: ARG001
    body: bytes,  # noqa: ARG001
) -> bytes | None:
    """Write a frame of a JSON header with these fields, without a remark, and a body."""
    return None


def write_message_id(host: str, log_offset: int) -> str | None:  # noqa: ARG001
    """Write the offset message id of a host, given by 16 hexadecimal digits, and a log offset."""
    return None
