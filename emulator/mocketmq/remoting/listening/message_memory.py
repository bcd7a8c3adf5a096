"""Limits the memory of messages on their way to remoting clients.

A request reserves memory for the largest possible answer before it reads messages from the store. Afterwards,
the messages that it has read count until the client has read the answer. While there is no room, requests
wait, so consumers get their messages later instead of an error. Waiting connections take turns. A client that
does not read its answers gets no more messages, and its connection is closed if others wait for the memory
that it holds.

``connections/budget.py`` limits what clients send.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from mocketmq.connections.budget import TURN_S
from mocketmq.connections.reading_pace import LEAST_READ_BYTES
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode

MAX_OUTGOING_BYTES: Final = 32 << 20
"""Limit on the messages being read and the answers not yet read by clients, on all connections together."""
OWN_UNREAD_BYTES: Final = 1 << 20
"""Unread bytes above which a connection's requests for messages wait until the client has read some."""
MAX_WAITING: Final = 8_192
"""Maximum number of requests that wait for memory."""
WAIT_S: Final = 8.0
"""Real seconds after which a waiting request is refused; clients wait at least ten for an answer."""


class MessageReader(Protocol):
    """A connection on which a client receives messages."""

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""


class MessageMemory:
    """The memory of messages on their way to all connections, in bytes.

    ``most`` is the memory that one answer may take, at most half of the limit. ``unread`` has the number of
    unread bytes of each connection whose client reads more slowly than it is answered.
    """

    def __init__(self, most: int, limit: int = MAX_OUTGOING_BYTES) -> None:
        self.most = most
        self.limit = limit
        self.turn_s = TURN_S
        self.wait_s = WAIT_S
        self.reserved = 0
        self.unread: dict[MessageReader, int] = {}
        self.unread_bytes = 0  # of answers that clients have not read
        self._waiting: dict[MessageReader, deque[MessageLoad]] = {}
        self._count = 0
        self._last_unread: dict[MessageReader, int] = {}  # at the last check
        self._checking: asyncio.TimerHandle | None = None

    @property
    def has_room(self) -> bool:
        """Whether there is room for one more answer."""
        return self.reserved + self.unread_bytes + self.most <= self.limit

    def set_unread(self, connection: MessageReader, size: int) -> None:
        """Set the number of bytes that a client has not read."""
        self.unread_bytes += size - self.unread.get(connection, 0)
        self.unread[connection] = size

    def has_read(self, connection: MessageReader) -> None:
        """Record that a client has read nearly all of its answers, or has disconnected."""
        self.unread_bytes -= self.unread.pop(connection, 0)
        self._last_unread.pop(connection, None)
        self._let_in()

    def change(self, size: int) -> None:
        """Reserve memory; with a negative size, free it."""
        self.reserved += size
        if size < 0:
            self._let_in()

    def try_reserve(self, load: "MessageLoad") -> bool:
        """Reserve memory for an answer if there is room, and if no request waits."""
        if self._waiting or not self.has_room or self._is_behind(load.connection):
            return False
        load.settle(self.most)
        return True

    async def reserve(self, load: "MessageLoad") -> None:
        """Wait until there is room for an answer, and reserve the memory.

        Raises RemotingError if too many requests wait, or if this request has waited too long.
        """
        if self._count >= MAX_WAITING:
            refuse_messages()
        has_room = load.has_room = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(load.connection, deque()).append(load)
        self._count += 1
        self._let_in()
        self._check_later()
        try:
            async with asyncio.timeout(self.wait_s):
                await has_room
        except TimeoutError:
            refuse_messages()
        finally:
            self._leave(load)

    def _leave(self, load: "MessageLoad") -> None:
        loads = self._waiting.get(load.connection)
        if loads is not None and load in loads:
            loads.remove(load)
            self._count -= 1
            if not loads:
                del self._waiting[load.connection]

    def _is_behind(self, connection: MessageReader) -> bool:
        return self.unread.get(connection, 0) >= OWN_UNREAD_BYTES

    def _let_in(self) -> None:
        """Reserve memory for the first request of each waiting connection, as far as there is room."""
        for connection in list(self._waiting):
            if not self.has_room:
                return
            if self._is_behind(connection):
                continue
            loads = self._waiting.pop(connection)
            while loads:
                load = loads.popleft()
                self._count -= 1
                if load.has_room is not None and not load.has_room.done():  # otherwise it was cancelled
                    load.settle(self.most)
                    load.has_room.set_result(None)
                    break
            if loads:
                self._waiting[connection] = loads  # to the end of the queue

    def _check_later(self) -> None:
        if self._checking is None:
            self._checking = asyncio.get_running_loop().call_later(self.turn_s, self._check)

    def _check(self) -> None:
        """Close connections whose clients read too little while others wait for memory.

        A client that has fewer than ``LEAST_READ_BYTES`` unread bytes need not read any.
        """
        self._checking = None
        last, self._last_unread = self._last_unread, {}
        if not self._waiting:
            return
        self._check_later()
        for connection in list(self.unread):
            size = connection.unread
            self.set_unread(connection, size)
            before = last.get(connection, 0)
            if not self.has_room and before >= LEAST_READ_BYTES > before - size:
                connection.abort(f"the client has not read its messages: {size} bytes unread")
            self._last_unread[connection] = size
        self._let_in()


class MessageLoad:
    """The memory of one request's messages; implements MemoryReservation of ``broker.consuming.selection``.

    ``size`` bytes stay reserved until the task that serves the request has ended and sent the response.
    """

    def __init__(self, memory: MessageMemory, connection: MessageReader) -> None:
        self.connection = connection
        self.size = 0
        self.has_room: asyncio.Future[None] | None = None
        self._memory = memory

    async def wait_for_room(self, is_needed: Callable[[], bool] | None = None) -> None:
        """Reserve memory for an answer. Raises RemotingError after a long wait."""
        if not self._memory.try_reserve(self) and (is_needed is None or is_needed()):
            await self._memory.reserve(self)

    def reserve(self, most: int) -> int:
        """Reserve ``most`` bytes without waiting.

        Usually, :meth:`wait_for_room` has already reserved them, but not if the messages arrived afterwards.
        """
        self.settle(max(self.size, most))
        return most

    def settle(self, size: int) -> None:
        """Replace the reservation by the number of bytes that were read."""
        change, self.size = size - self.size, size
        if change:
            self._memory.change(change)

    def end(self, _task: object) -> None:
        """Free the memory, because the response is on its way."""
        self.settle(0)

    def refuse(self) -> NoReturn:
        """Raise RemotingError, because there is no memory for the next message."""
        refuse_messages()


def refuse_messages() -> NoReturn:
    """Raise RemotingError, because too many messages are on their way to clients."""
    raise RemotingError(
        ResponseCode.SYSTEM_BUSY, "messages that clients have not read use too much memory; retry later"
    )
