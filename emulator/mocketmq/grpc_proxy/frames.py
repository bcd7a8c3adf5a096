"""Reads and writes HTTP/2 frames (RFC 9113, sections 3.4, 4 and 6); the server's header blocks (RFC 7541)."""

from collections.abc import Callable
from enum import IntEnum
from typing import Final
from urllib.parse import quote

from mocketmq.grpc_proxy.client_limits import MAX_FRAME_BYTES

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES: Final = 9
MAX_WINDOW: Final = (1 << 31) - 1
DEFAULT_WINDOW: Final = (1 << 16) - 1

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20


class Frame(IntEnum):
    """The type of a frame."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Http2Code(IntEnum):
    """Error codes in RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Setting(IntEnum):
    """The identifier of a setting in a SETTINGS frame."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Http2Error(Exception):
    """A client violated the protocol or a limit. Its connection is closed with this code."""

    def __init__(self, code: Http2Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Make a whole frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + payload


def settings_frame(settings: dict[Http2Setting, int]) -> bytes:
    """Make the frame that announces these settings."""
    pairs = (key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings.items())
    return frame(Frame.SETTINGS, 0, 0, b"".join(pairs))


def goaway_frame(last_stream_id: int, code: Http2Code, why: str = "") -> bytes:
    """Make the frame that announces the end of the connection."""
    payload = last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + why.encode()
    return frame(Frame.GOAWAY, 0, 0, payload)


def without_padding(flags: int, payload: memoryview) -> memoryview:
    """Return the content of a DATA or HEADERS frame. Raises Http2Error."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "the padding of a frame exceeds the frame")
    return payload[1 : len(payload) - payload[0]]


HandleFrame = Callable[[int, int, int, memoryview], None]
"""Called with the type, flags, stream and payload of a frame. May raise Http2Error."""


class Http2FrameReader:
    """Splits the bytes of one connection into frames, and buffers incomplete frames."""

    def __init__(self) -> None:
        self.has_preface = False
        self._incoming = bytearray()

    def feed(self, data: bytes) -> None:
        self._incoming += data

    def clear(self) -> None:
        """Drop unhandled bytes."""
        self._incoming.clear()

    def handle_frames(self, left: int, handle: HandleFrame) -> int | None:
        """Handle up to ``left`` complete frames. Raises Http2Error.

        Returns the unused part of ``left``, or None if more complete frames remain.
        """
        incoming = self._incoming
        if not self.has_preface:
            if not incoming.startswith(PREFACE[: len(incoming)]):
                raise Http2Error(
                    Http2Code.PROTOCOL_ERROR, "the connection did not begin with the HTTP/2 preface"
                )
            if len(incoming) < len(PREFACE):
                return left
            del incoming[: len(PREFACE)]
            self.has_preface = True
        at, total = 0, len(incoming)
        try:
            while total - at >= HEAD_BYTES:
                size = int.from_bytes(incoming[at : at + 3], "big")
                if size > MAX_FRAME_BYTES:
                    raise Http2Error(
                        Http2Code.FRAME_SIZE_ERROR,
                        f"a frame is {size} bytes long; allowed: up to {MAX_FRAME_BYTES}",
                    )
                end = at + HEAD_BYTES + size
                if end > total:
                    return left
                if not left:
                    return None
                left -= 1
                kind, flags = incoming[at + 3], incoming[at + 4]
                stream_id = int.from_bytes(incoming[at + 5 : at + 9], "big") & MAX_WINDOW
                # A copy, because a slice that a stream keeps would keep the whole buffer alive.
                payload = memoryview(incoming[at + HEAD_BYTES : end])
                at = end
                handle(kind, flags, stream_id, payload)
            return left
        finally:
            del incoming[:at]


# The server writes its headers as literals without indexing, so that encoding needs no state. The first block
# of a connection sets the size of the dynamic table to 0, whatever size the client allows.
EMPTY_TABLE: Final = b"\x20"


def header(name: str, value: str) -> bytes:
    """Encode one header."""
    return b"\0" + _text(name.encode()) + _text(value.encode())


def _text(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    head, size = bytearray(b"\x7f"), size - 127
    while size >= 128:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + text


HEADERS_BLOCK: Final = b"\x88" + header("content-type", "application/grpc")  # \x88: ":status: 200"
OK_TRAILERS_BLOCK: Final = header("grpc-status", "0")


def trailers_block(status: int, message: str) -> bytes:
    """Make the trailers that end an RPC. After ``HEADERS_BLOCK``, they are a response without a message."""
    if not status and not message:
        return OK_TRAILERS_BLOCK
    text = quote(message, safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
    return header("grpc-status", str(int(status))) + header("grpc-message", text)


def http_error_block(http_status: int, status: int, message: str) -> bytes:
    """Make the headers that refuse a request that is not gRPC."""
    return header(":status", str(http_status)) + trailers_block(status, message)
