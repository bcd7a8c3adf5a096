"""Joins still WebP pictures, which Chromium encodes but does not animate, into an animated WebP.

The container is RIFF, described in RFC 9649: ``VP8X`` has the size of the canvas, ``ANIM`` the number of
loops, and an ``ANMF`` for each frame its place, its duration and the chunks of its picture.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_ALPHA: Final = 0x10
_ANIMATION: Final = 0x02
_OF_PICTURES: Final = (b"ALPH", b"VP8 ", b"VP8L")


class Frame(NamedTuple):
    """A picture as a WebP file, drawn over the frames before it: its transparent pixels keep theirs."""

    webp: bytes
    duration_ms: int


def animated(frames: Sequence[Frame], width: int, height: int) -> bytes:
    """Return a film that plays in a loop. All pictures have this size in pixels.

    Raises ValueError if a picture is no WebP.
    """
    canvas = _uint24(width - 1) + _uint24(height - 1)
    body = _chunk(b"VP8X", bytes([_ALPHA | _ANIMATION, 0, 0, 0]) + canvas)
    body += _chunk(b"ANIM", bytes(6))  # a transparent background, loops without end
    for frame in frames:
        picture = b"".join(_chunk(*one) for one in chunks(frame.webp) if one[0] in _OF_PICTURES)
        place = _uint24(0) + _uint24(0) + canvas
        body += _chunk(b"ANMF", place + _uint24(frame.duration_ms) + b"\0" + picture)
    return _chunk(b"RIFF", b"WEBP" + body)


def chunks(webp: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names and contents of a WebP's chunks. Raises ValueError if it is no WebP, or was cut."""
    if webp[:4] != b"RIFF" or webp[8:12] != b"WEBP":
        raise ValueError(f"not a WebP: it begins with {webp[:12]!r}")
    place = 12
    while place < len(webp):
        name, (size,) = webp[place : place + 4], struct.unpack_from("<I", webp, place + 4)
        content = webp[place + 8 : place + 8 + size]
        if len(content) < size:
            raise ValueError(f"a chunk {name!r} of {size} bytes was cut to {len(content)}")
        yield name, content
        place += 8 + size + size % 2


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def _uint24(number: int) -> bytes:
    return number.to_bytes(3, "little")
