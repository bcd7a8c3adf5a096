"""Reads the bodies of requests, within limits on their size, on all of them together, and on time.

A body that has come in whole is in work, and ends by itself. One that is coming in may never end: when those
take too much memory, who asks for more is refused, and those that stand still are given up.
"""

import asyncio
from typing import Final

from aiohttp import StreamReader, web

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, MAX_HELD_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater, give_back
from mocketmq.http_api.problem import HttpError
from mocketmq.turns import Turns

QUIET_S: Final = 30.0
"""Real seconds between two pieces of a body, at most."""
_STILL_US: Final = int(TURN_S * US_PER_S)


class BodyTooLargeError(HttpError):
    """The body is larger than the limit."""

    status = 413
    field = "body"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit} bytes, the most that max_message_bytes allows")
        self.allowed = f"at most {limit} bytes"


class IncompleteBodyError(HttpError):
    """The body ended early, or its transfer encoding is broken."""

    status = 400


class SlowBodyError(HttpError):
    """The body stood still."""

    status = 408
    field = "body"
    allowed = f"a further piece within {QUIET_S:g} s, or {TURN_S:g} s while others need the memory"


class TooManyBodiesError(HttpError):
    """The bodies that are coming in take too much memory."""

    status = 503
    field = "body"

    def __init__(self) -> None:
        super().__init__(f"bodies of {MAX_HELD_BYTES} bytes in all are coming in; send this one again later")


class _Upload:
    def __init__(self) -> None:
        self.size = 0
        self.moved_us = steady_us()
        self.timeout: asyncio.Timeout | None = None


class Bodies:
    """Those of all connections: each has at most ``limit`` bytes. Long ones are read in ``turns``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.turns = Turns()
        self.held = 0  # bytes of those that are coming in
        self._high_water = HighWater()
        self._uploads: dict[_Upload, None] = {}  # the one that has stood still for longest is the first

    async def read(self, request: web.BaseRequest) -> bytes:
        """The body. Raises BodyTooLargeError, IncompleteBodyError, SlowBodyError, TooManyBodiesError."""
        if (request.content_length or 0) > self.limit:
            raise BodyTooLargeError(self.limit)
        if "Expect" in request.headers:  # curl asks before it sends a large body
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        payload = request.content
        try:
            # Mostly it came with the header; awaiting it would add a tenth to the cost of a small request.
            content = payload.read_nowait() if payload.is_eof() else await self._read(payload)
        except web.RequestPayloadError as error:
            raise IncompleteBodyError(f"the body cannot be read: {error}") from None
        if len(content) > self.limit:
            raise BodyTooLargeError(self.limit)
        return content

    async def _read(self, payload: StreamReader) -> bytes:
        upload = _Upload()
        pieces: list[bytes] = []
        try:
            while True:
                async with asyncio.timeout(QUIET_S) as upload.timeout:
                    piece = await payload.readany()
                upload.timeout = None
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
                self._grow(upload, len(piece))
        except TimeoutError:
            raise SlowBodyError(f"the body stood still after {upload.size} bytes") from None
        finally:
            self.held -= upload.size
            self._uploads.pop(upload, None)

    def look_after(self) -> None:
        """Return freed memory to the system after a flood of bodies."""
        if self._high_water.has_fallen(self.held):
            give_back()

    def _grow(self, upload: _Upload, size: int) -> None:
        upload.size += size
        self.held += size
        self._high_water.rise(self.held)
        upload.moved_us = steady_us()
        self._uploads.pop(upload, None)
        self._uploads[upload] = None
        if upload.size > self.limit:
            raise BodyTooLargeError(self.limit)
        if upload.size > FREE_BYTES and self.held > MAX_HELD_BYTES:
            self._give_up_still_ones(upload.moved_us)
            raise TooManyBodiesError

    def _give_up_still_ones(self, now_us: int) -> None:
        for upload in self._uploads:
            if now_us - upload.moved_us < _STILL_US:
                break
            if upload.size > FREE_BYTES and upload.timeout is not None:
                upload.timeout.reschedule(0)
