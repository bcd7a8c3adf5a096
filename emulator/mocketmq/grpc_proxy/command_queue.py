"""The commands that wait to be sent on a Telemetry stream."""

import asyncio
from contextlib import suppress
from typing import Any

from mocketmq.grpc_proxy.codes import StatusError
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.memory import Memory


class CommandQueue:
    """Sends commands one after the other. The memory limits count them as unread until they are sent."""

    def __init__(self, exchange: Exchange, memory: Memory) -> None:
        self._exchange = exchange
        self._memory = memory
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._unsent = 0

    def put(self, command: Any) -> bool:
        """Send a command after the earlier ones.

        Returns False, without any effect, if memory is lacking or the stream has ended.
        """
        content = command.SerializeToString()
        if not self._exchange.stream.is_open:
            return False
        if len(content) > self._memory.room:
            self._memory.close_slow_readers()
            return False
        self._count(len(content))
        self._waiting.put_nowait(content)
        return True

    async def write(self) -> None:
        """Send the commands until the client has disconnected."""
        with suppress(StatusError):
            while True:
                content = await self._waiting.get()
                await self._exchange.send_bytes(content)
                self._count(-len(content))
                self._waiting.task_done()

    async def sent(self) -> None:
        """Wait until all commands are sent."""
        await self._waiting.join()

    def drop(self) -> None:
        """Stop counting the commands that are not sent, because the stream has ended."""
        self._count(-self._unsent)

    def _count(self, size: int) -> None:
        self._unsent += size
        self._memory.unsent(self._exchange.stream.connection, size)
