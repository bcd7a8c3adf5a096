"""Reads and writes JSON headers (docs/protocol/remoting.md §1)."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import FrameError
from mocketmq.remoting.wire.json_form import JsonHeader, LooseJsonHeader, WrittenJsonHeader

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


def _read_loosely(data: bytes) -> LooseJsonHeader:
    """Read a header in fastjson's dialect, with ext values of any type, as ali-ons writes it."""
    try:
        return msgspec.convert(fastjson.loads(data), LooseJsonHeader, strict=False)
    except (InvalidArgumentError, msgspec.ValidationError) as error:
        raise FrameError(f"a header that cannot be read: {error}") from None


def _texts(ext: Mapping[str, Any] | None) -> dict[str, str]:
    """The values as text, in the form that RocketMQ would write."""
    return {
        key: value if isinstance(value, str) else fastjson.dumps(value).decode()
        for key, value in (ext or {}).items()
        if value is not None
    }


def write_header(
    code: int, ext: Mapping[str, str], flag: int, language: str, opaque: int, version: int, remark: str | None
) -> bytes:
    """Write a header."""
    return _write_json(
        WrittenJsonHeader(
            code,
            ext if type(ext) is dict else dict(ext),
            flag,
            language,
            opaque,
            version,
            remark or msgspec.UNSET,
        )
    )
