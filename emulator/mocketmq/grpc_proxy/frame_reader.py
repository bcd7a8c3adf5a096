"""Cuts what a client sends into HTTP/2 frames (RFC 9113, 3.4 and 4.1)."""

from collections.abc import Callable

from mocketmq.grpc_proxy.frames import HEAD_BYTES, MAX_WINDOW, PREFACE, Http2Code, Http2Error
from mocketmq.grpc_proxy.limits import MAX_FRAME_BYTES

HandleFrame = Callable[[int, int, int, memoryview], None]
"""Gets the type, flags, stream and payload of a frame. May raise Http2Error."""


class FrameReader:
    """The bytes of one connection."""

    def __init__(self) -> None:
        self.has_preface = False
        self._incoming = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._incoming += data

    def clear(self) -> None:
        """Drop what was not handled."""
        self._incoming.clear()

    def handle_frames(self, left: int, handle: HandleFrame) -> bool:
        """Handle up to so many frames. True if more whole ones are left. Raises Http2Error."""
        incoming = self._incoming
        if not self.has_preface:
            if not incoming.startswith(PREFACE[: len(incoming)]):
                raise Http2Error(
                    Http2Code.PROTOCOL_ERROR, "the connection does not begin with HTTP/2's preface"
                )
            if len(incoming) < len(PREFACE):
                return False
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
                    return False
                if not left:
                    return True
                left -= 1
                kind, flags = incoming[at + 3], incoming[at + 4]
                stream_id = int.from_bytes(incoming[at + 5 : at + 9], "big") & MAX_WINDOW
                # A copy: a stream that kept a part of all that came would keep all of it.
                payload = memoryview(incoming[at + HEAD_BYTES : end])
                at = end
                handle(kind, flags, stream_id, payload)
            return False
        finally:
            del incoming[:at]
