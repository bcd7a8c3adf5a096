"""Limit the memory of requests and answers, of one connection and of all together.

Complete requests always finish, so reading pauses while they take too much. Incomplete requests may never
end, and clients may never read their answers: while these take too much, further requests get
TOO_MANY_REQUESTS (42900), and stalled ones are dropped.
"""

from typing import Any, Final, NoReturn, Protocol

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, MAX_HELD_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater
from mocketmq.grpc_proxy.codes import Code, GrpcError

MAX_RUNNING_BYTES: Final = 32 << 20
"""Bytes of requests of one connection, in progress or incomplete."""
MAX_UNREAD_BYTES: Final = 32 << 20
"""Messages on their way to clients, of all connections; each takes twice its bytes while it is sent."""
_STILL_US: Final = int(TURN_S * US_PER_S)


class Connection(Protocol):
    """A connection, as far as its memory is concerned.

    ``wrote_us`` is when it last wrote something, or began to have something to write.
    """

    running: int
    incoming: int
    unread: int
    wrote_us: int

    def regulate(self) -> None:
        """Pause or resume reading, by the limits."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""


class Upload(Protocol):
    """A request that is coming in: ``size`` bytes of it are here, the last of them since ``moved_us``."""

    connection: Any
    size: int
    moved_us: int

    def give_up(self, error: GrpcError) -> None:
        """Refuse the request, and drop what has come in."""


class Memory:
    """What all connections hold, in bytes."""

    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.running = 0
        self.incoming = 0
        self.unread = 0
        self._high_water = HighWater()
        self._uploads: dict[Upload, None] = {}  # the one that has stood still for longest is the first

    @property
    def held(self) -> int:
        """Bytes of requests."""
        return self.running + self.incoming

    def runs(self, connection: Connection, size: int) -> None:
        """Note that a request is in work, or with a negative size that it has ended."""
        connection.running += size
        self.running += size
        self._high_water.rise(self.held)
        if size > 0:
            connection.regulate()
        else:
            for each in list(self.connections) if self.running - size >= MAX_HELD_BYTES else (connection,):
                each.regulate()

    def is_full(self, connection: Connection) -> bool:
        """Whether requests in work take so much that no more is to be read of the connection."""
        return connection.running >= MAX_RUNNING_BYTES or self.running >= MAX_HELD_BYTES

    def grow(self, upload: Upload, size: int) -> None:
        """Note that more of a request has come in. Raises GrpcError.

        A connection may always hold ``FREE_BYTES``, so that small requests go on.
        """
        connection = upload.connection
        incoming = connection.incoming + size
        if incoming > FREE_BYTES and (incoming > MAX_RUNNING_BYTES or self.held + size > MAX_HELD_BYTES):
            self._give_up_still_ones()
            raise GrpcError(Code.TOO_MANY_REQUESTS, "too many bytes of requests in progress; try again")
        upload.size += size
        self._uploads.pop(upload, None)
        self._uploads[upload] = None
        connection.incoming += size
        self.incoming += size
        self._high_water.rise(self.held)

    def shrink(self, upload: Upload, size: int) -> None:
        """Note that a request has come in whole, or is dropped."""
        upload.size -= size
        upload.connection.incoming -= size
        self.incoming -= size
        if not upload.size:
            self._uploads.pop(upload, None)

    def _give_up_still_ones(self) -> None:
        now_us = steady_us()
        for upload in list(self._uploads):
            if now_us - upload.moved_us < _STILL_US:
                break
            if upload.size > FREE_BYTES:
                upload.give_up(
                    GrpcError(
                        Code.TOO_MANY_REQUESTS,
                        "others wait for the memory that this unfinished request takes",
                    )
                )

    @property
    def room(self) -> int:
        """How many bytes of messages may be read for clients."""
        return max(MAX_UNREAD_BYTES - self.unread, 0)

    def refuse_messages(self) -> NoReturn:
        """Raise GrpcError, and close connections that do not read what is sent to them."""
        now_us = steady_us()
        for each in list(self.connections):
            if each.unread and now_us - each.wrote_us >= _STILL_US:
                each.abort(f"it does not read its messages, {each.unread} bytes so far")
        raise GrpcError(Code.TOO_MANY_REQUESTS, "too many messages wait for clients to read them")

    def unsent(self, connection: Connection, size: int) -> None:
        """Count messages on their way to a client; with a negative size, stop counting them."""
        if not connection.unread:
            connection.wrote_us = steady_us()  # an idle client has not left anything unread
        connection.unread += size
        self.unread += size
        self._high_water.rise(self.held + self.unread)

    def ends_flood(self) -> bool:
        """Whether much was held since the last time this was true, and most of it is free again."""
        return self._high_water.has_fallen(self.held + self.unread)
