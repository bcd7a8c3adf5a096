"""Decodes the headers of requests in HEADERS and CONTINUATION frames (RFC 9113, 4.3 and 8.2)."""

from collections.abc import Iterable
from typing import Final

from hpack import HPACKError, OversizedHeaderListError

from mocketmq.grpc_proxy.client_limits import MAX_CONTINUATIONS, MAX_HEADER_BYTES
from mocketmq.grpc_proxy.frames import (
    END_HEADERS,
    MAX_WINDOW,
    PRIORITY_FLAG,
    Frame,
    Http2Code,
    Http2Error,
    without_padding,
)
from mocketmq.grpc_proxy.header_decoder import Field, HeaderDecoder

_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
_NEEDED: Final = (":method", ":scheme", ":path")
_FORBIDDEN: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}
)
_PRIORITY_BYTES: Final = 5

Fields = Iterable[Field]


class HeaderBlocks:
    """The header blocks of one connection; ``stream_id`` and ``flags`` belong to the last block."""

    def __init__(self) -> None:
        self.stream_id = 0
        self.flags = 0
        self._decoder = HeaderDecoder(MAX_HEADER_BYTES)
        self._block = bytearray()
        self._continuations = 0
        self.is_open = False  # whether CONTINUATION frames must follow

    def begin_block(self, flags: int, stream_id: int, payload: memoryview) -> Fields | None:
        """Process a HEADERS frame; return the fields if the block is complete. Raises Http2Error."""
        if not stream_id & 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"clients cannot open stream {stream_id}")
        content = without_padding(flags, payload)
        if flags & PRIORITY_FLAG:
            if len(content) < _PRIORITY_BYTES:
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "a HEADERS frame is too short")
            if int.from_bytes(content[:4], "big") & MAX_WINDOW == stream_id:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, f"stream {stream_id} depends on itself")
            content = content[_PRIORITY_BYTES:]
        self.stream_id, self.flags = stream_id, flags
        if flags & END_HEADERS:
            return self._decode(content.tobytes())
        self._block, self._continuations, self.is_open = bytearray(content), 0, True
        return None

    def go_on(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> Fields | None:
        """Process the frame after an incomplete block; return the fields if the block is now complete.

        Raises Http2Error.
        """
        if not self.is_open or kind != Frame.CONTINUATION or stream_id != self.stream_id:
            raise Http2Error(
                Http2Code.PROTOCOL_ERROR, "a header block is interrupted, or continued without a beginning"
            )
        self._continuations += 1
        self._block += payload
        if self._continuations > MAX_CONTINUATIONS or len(self._block) > MAX_HEADER_BYTES:
            raise _too_large()
        if not flags & END_HEADERS:
            return None
        self.is_open = False
        return self._decode(bytes(self._block))

    def _decode(self, block: bytes) -> Fields:
        try:
            return self._decoder.decode(block)
        except OversizedHeaderListError:
            raise _too_large() from None
        except HPACKError as error:
            raise Http2Error(
                Http2Code.COMPRESSION_ERROR, f"headers cannot be decompressed: {error}"
            ) from None


def request_headers(fields: Fields) -> dict[str, str] | None:
    """Return a request's headers by name; None if it is malformed (RFC 9113, 8.2 and 8.3)."""
    headers: dict[str, str] = {}
    are_pseudo = True
    for name, value in fields:
        if name.startswith(":"):
            if not are_pseudo or name in headers or name not in _PSEUDO:
                return None
        else:
            are_pseudo = False
            if name in _FORBIDDEN or name != name.lower():
                return None
        headers[name] = value
    if headers.get("te", "trailers") != "trailers" or not all(headers.get(name) for name in _NEEDED):
        return None
    return headers


def _too_large() -> Http2Error:
    return Http2Error(
        Http2Code.ENHANCE_YOUR_CALM,
        f"the headers of a request are too large; allowed: {MAX_HEADER_BYTES} bytes,"
        f" {MAX_CONTINUATIONS} CONTINUATION frames",
    )
