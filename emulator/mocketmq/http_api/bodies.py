"""Reads request bodies within limits on size, total memory and time.

A complete body belongs to a running request, which ends on its own. An incomplete body may never be
completed. When incomplete bodies occupy too much memory, the API refuses further bodies and drops stalled
bodies.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import StreamReader

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, MAX_HELD_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater, give_back
from mocketmq.event_loop import EventLoopTurns
from mocketmq.http_api import web
from mocketmq.http_api.problem import HttpError

QUIET_S: Final = 30.0
"""Maximum pause between two pieces of a body, in real seconds."""


class BodyTooLargeError(HttpError):
    """The body is larger than the limit."""

    status = 413
    field = "body"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body is longer than {limit} bytes, the limit that follows from max_message_bytes"
        )
        self.allowed = f"at most {limit} bytes"


class IncompleteBodyError(HttpError):
    """The body ends early, or its transfer encoding is broken."""

    status = 400


class SlowBodyError(HttpError):
    """The body stalled."""

    status = 408
    field = "body"
    allowed = f"at most {QUIET_S:g} s between two pieces, {TURN_S:g} s while other requests need the memory"


class TooManyBodiesError(HttpError):
    """Incomplete bodies take too much memory."""

    status = 503
    field = "body"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"unfinished request bodies hold {limit} bytes of memory, which is the limit; retry later"
        )


class _Upload:
    def __init__(self) -> None:
        self.size = 0
        self.moved_us = steady_us()
        self.timeout: asyncio.Timeout | None = None


class Bodies:
    """Reads bodies of up to ``limit`` bytes on all connections.

    Incomplete bodies may occupy up to ``most_held`` bytes. At that limit, bodies that have stalled for
    ``still_us`` are dropped. ``turns`` schedules the decoding of long bodies.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.most_held = MAX_HELD_BYTES
        self.still_us = int(TURN_S * US_PER_S)
        self.turns = EventLoopTurns()
        self.held = 0  # bytes of incomplete bodies
        self.on_read: Callable[[web.BaseRequest, bytes], None] | None = None  # records requests
        self._high_water = HighWater()
        self._uploads: dict[_Upload, None] = {}  # longest stalled first

    async def read(self, request: web.BaseRequest) -> bytes:
        """Read a body. Raises BodyTooLargeError, IncompleteBodyError, SlowBodyError, TooManyBodiesError."""
        payload = request.content
        has_arrived = payload.is_eof()
        if not has_arrived:
            if (request.content_length or 0) > self.limit:
                raise BodyTooLargeError(self.limit)
            if "Expect" in request.headers:  # curl waits for "100 Continue" before it sends a large body
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            # The body usually arrives with the header. An await would slow a small request down by a tenth.
            content = payload.read_nowait() if has_arrived else await self._read(payload)
        except web.RequestPayloadError as error:
            raise IncompleteBodyError(f"the body cannot be read: {error}") from None
        if len(content) > self.limit:
            raise BodyTooLargeError(self.limit)
        if self.on_read is not None:
            self.on_read(request, content)
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
            raise SlowBodyError(f"the body stalled after {upload.size} bytes") from None
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
        if upload.size > FREE_BYTES and self.held > self.most_held:
            self._give_up_still_ones(upload.moved_us)
            raise TooManyBodiesError(self.most_held)

    def _give_up_still_ones(self, now_us: int) -> None:
        for upload in self._uploads:
            if now_us - upload.moved_us < self.still_us:
                break
            timeout = upload.timeout
            if upload.size > FREE_BYTES and timeout is not None and not timeout.expired():
                timeout.reschedule(0)
