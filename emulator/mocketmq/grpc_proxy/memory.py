"""Limits the memory of gRPC requests and responses, per connection and in total.

``connections/budget.py`` lets remoting connections take turns at reading. gRPC requests share a connection,
so this module refuses single requests instead. Unread responses count, too.

Complete requests always finish, so reading pauses while they occupy too much memory. Incomplete requests may
never end, and clients may never read their responses. While requests and responses of these two kinds occupy
too much memory, further requests get TOO_MANY_REQUESTS (42900), and stalled requests are dropped.
"""

import gc
from typing import Any, Final, NoReturn, Protocol

import msgspec

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, MAX_HELD_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater
from mocketmq.grpc_proxy.codes import Code, GrpcError

_STREAM_BYTES: Final = 4 << 10
"""Approximate memory that an open stream needs besides its request and responses."""
_STREAMS_PER_COLLECTION: Final = 512


class MemoryLimits(msgspec.Struct, frozen=True):
    """Limits in bytes, and how long a stalled client may keep memory that others need."""

    running: int = 32 << 20
    """Limit on running requests, and on incomplete requests, of one connection."""
    held: int = MAX_HELD_BYTES
    """Limit on running and incomplete requests of all connections."""
    unread: int = 32 << 20
    """Limit on messages and commands in transit to all clients. Sending one takes twice its size."""
    still_us: int = int(TURN_S * US_PER_S)


class MeteredConnection(Protocol):
    """The interface that a connection offers to the memory limits."""

    running: int
    incoming: int
    unread: int

    def regulate(self) -> None:
        """Pause or resume reading as the limits require."""

    def is_slow_reader(self, limit_us: int) -> bool:
        """Whether the client has read less than ``LEAST_READ_BYTES`` since ``limit_us`` (steady clock)."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""


class Upload(Protocol):
    """An incomplete request. ``size`` bytes have arrived, the last of them at ``moved_us``."""

    connection: Any
    size: int
    moved_us: int

    def give_up(self, error: GrpcError) -> None:
        """Refuse the request, and drop its bytes."""


class Memory:
    """The memory that all connections hold, in bytes."""

    def __init__(self) -> None:
        self.limits = MemoryLimits()
        self.connections: set[Any] = set()
        self.running = 0
        self.incoming = 0
        self.unread = 0
        self._streams = 0
        self._opened = 0
        self._high_water = HighWater()
        self._uploads: dict[Upload, None] = {}  # longest stalled first

    @property
    def held(self) -> int:
        """Number of bytes that requests occupy, running or incomplete."""
        return self.running + self.incoming

    def opened(self) -> None:
        """Count an open stream to detect the end of a flood, and collect garbage in small steps.

        Python collects garbage only when many more objects were created than freed. Streams that replace each
        other do not trigger a collection, so a late one would find thousands of streams and delay all
        clients.
        """
        self._streams += 1
        self._high_water.rise(self._all)
        self._opened += 1
        if not self._opened % _STREAMS_PER_COLLECTION:
            gc.collect(0)

    def closed(self) -> None:
        """Stop counting an open stream."""
        self._streams -= 1

    @property
    def _all(self) -> int:
        return self.held + self.unread + self._streams * _STREAM_BYTES

    def runs(self, connection: MeteredConnection, size: int) -> None:
        """Count a running request; with a negative size, stop counting it."""
        connection.running += size
        self.running += size
        self._high_water.rise(self._all)
        if size > 0:
            connection.regulate()
        else:
            for each in list(self.connections) if self.running - size >= self.limits.held else (connection,):
                each.regulate()

    def is_full(self, connection: MeteredConnection) -> bool:
        """Whether running requests occupy so much memory that reading from the connection must pause."""
        return connection.running >= self.limits.running or self.running >= self.limits.held

    def grow(self, upload: Upload, size: int) -> None:
        """Count further bytes of an incomplete request. Raises GrpcError.

        A connection may always hold ``FREE_BYTES``, so that small requests get through.
        """
        connection = upload.connection
        incoming, limits = connection.incoming + size, self.limits
        if incoming > FREE_BYTES and (incoming > limits.running or self.held + size > limits.held):
            self._give_up_still_ones()
            raise GrpcError(Code.TOO_MANY_REQUESTS, "requests in progress use too much memory; retry later")
        upload.size += size
        self._uploads.pop(upload, None)
        self._uploads[upload] = None
        connection.incoming += size
        self.incoming += size
        self._high_water.rise(self._all)

    def shrink(self, upload: Upload, size: int) -> None:
        """Stop counting a request that is complete or dropped."""
        upload.size -= size
        upload.connection.incoming -= size
        self.incoming -= size
        if not upload.size:
            self._uploads.pop(upload, None)

    def _give_up_still_ones(self) -> None:
        now_us = steady_us()
        for upload in list(self._uploads):
            if now_us - upload.moved_us < self.limits.still_us:
                break
            if upload.size > FREE_BYTES:
                upload.give_up(
                    GrpcError(
                        Code.TOO_MANY_REQUESTS,
                        "the unfinished request holds memory that other requests need",
                    )
                )

    @property
    def room(self) -> int:
        """Number of bytes that further messages and commands for clients may take now."""
        return max(self.limits.unread - self.unread, 0)

    def refuse_messages(self) -> NoReturn:
        """Raise GrpcError, and close connections that read their responses too slowly."""
        self.close_slow_readers()
        raise GrpcError(Code.TOO_MANY_REQUESTS, "unread messages use too much memory; retry later")

    def close_slow_readers(self) -> None:
        """Close connections that read their responses too slowly, because others need the memory."""
        limit_us = steady_us() - self.limits.still_us
        for each in list(self.connections):
            if each.unread and each.is_slow_reader(limit_us):
                each.abort(f"the client has not read its messages: {each.unread} bytes unread")

    def unsent(self, connection: MeteredConnection, size: int) -> None:
        """Count messages or commands in transit to a client; with a negative size, stop counting them."""
        connection.unread += size
        self.unread += size
        self._high_water.rise(self._all)

    def ends_flood(self) -> bool:
        """Whether a flood has ended: much memory was held since the last flood, and most is free again."""
        return self._high_water.has_fallen(self._all)
