"""Splits a client's bytes into HTTP/2 frames (RFC 9113, 3.4 and 4.1)."""

from collections.abc import Callable

from mocketmq.grpc_proxy.client_limits import MAX_FRAME_BYTES
from mocketmq.grpc_proxy.frames import HEAD_BYTES, MAX_WINDOW, PREFACE, Http2Code, Http2Error

HandleFrame = Callable[[int, int, int, memoryview], None]
"""Called with the type, flags, stream and payload of a frame. May raise Http2Error."""


class Http2FrameReader:
    """Buffers the bytes of one connection until they form whole frames."""

    def __init__(self) -> None:
        self.has_preface = False
        self._incoming = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes from the client."""
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
                    Http2Code.PROTOCOL_ERROR, "the connection does not begin with HTTP/2's preface"
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
                        f"a frame has {size} bytes; allowed: up to {MAX_FRAME_BYTES}",
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
