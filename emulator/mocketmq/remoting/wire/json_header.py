"""Reads and writes JSON headers (docs/protocol/remoting.md §1)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import FrameError
from mocketmq.remoting.wire.command import Command

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class JsonHeader(msgspec.Struct, gc=False):
    """A JSON header as all clients except ali-ons write it."""

    code: _Int32
    opaque: _Int32 = 0
    flag: _Int32 = 0
    version: _Int32 = 0
    language: str | int | None = None
    remark: str | None = None
    extFields: dict[str, str] | None = None  # noqa: N815


class _LooseJsonHeader(JsonHeader):
    """A JSON header with ext values of any type."""

    extFields: dict[str, Any] | None = None  # noqa: N815


class _WrittenJsonHeader(msgspec.Struct, gc=False):
    """A JSON header as sent, always with ``extFields``, because some clients crash without them (§12.1)."""

    code: int
    extFields: dict[str, str]  # noqa: N815
    flag: int
    language: str
    opaque: int
    version: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815


_read_json: Final = msgspec.json.Decoder(JsonHeader).decode
_write_json: Final = msgspec.json.Encoder().encode


def read_header(data: bytes) -> tuple[JsonHeader, Mapping[str, str]]:
    """Read a header, and return it with its ext fields as text. Raises FrameError."""
    try:
        header = _read_json(data)
        return header, header.extFields or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        loose = _read_loosely(data)
        return loose, _texts(loose.extFields)


def _read_loosely(data: bytes) -> _LooseJsonHeader:
    """Read a header in fastjson's dialect, with ext values of any type, as ali-ons writes it."""
    try:
        return msgspec.convert(fastjson.loads(data), _LooseJsonHeader, strict=False)
    except (InvalidArgumentError, msgspec.ValidationError) as error:
        raise FrameError(f"a header that cannot be read: {error}") from None


def _texts(ext: Mapping[str, Any] | None) -> dict[str, str]:
    """The values as text, in the form that RocketMQ would write."""
    return {
        key: value if isinstance(value, str) else fastjson.dumps(value).decode()
        for key, value in (ext or {}).items()
        if value is not None
    }


def write_header(command: Command) -> bytes:
    """Write the header of a command."""
    ext = command.ext
    return _write_json(
        _WrittenJsonHeader(
            command.code,
            ext if type(ext) is dict else dict(ext),
            command.flag,
            command.language,
            command.opaque,
            command.version,
            command.remark or msgspec.UNSET,
        )
    )
