"""The fields of a JSON header, as it is read and written."""

from typing import Annotated, Any

import msgspec

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


class LooseJsonHeader(JsonHeader):
    """A JSON header with ext values of any type."""

    extFields: dict[str, Any] | None = None  # noqa: N815


class WrittenJsonHeader(msgspec.Struct, gc=False):
    """A JSON header as sent, always with ``extFields``, because some clients crash without them (§12.1)."""

    code: int
    extFields: dict[str, str]  # noqa: N815
    flag: int
    language: str
    opaque: int
    version: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815
