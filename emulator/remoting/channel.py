"""A channel: one client's connection, as handlers and the broker know it."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Final

from emulator.broker.clients import Moved
from emulator.remoting.codes import RequestCode, ResponseCode
from emulator.remoting.command import Command
from emulator.remoting.errors import RemotingError
from emulator.remoting.fastjson import dumps, object_keys
from emulator.remoting.identity import BROKER

CALL_S: Final = 10.0
"""Real seconds in which a client is to answer what it is asked, as upstream (sheet 2.6)."""


class Channel:
    """Addresses are ``host:port``.

    ``remote`` is the client's; ``advertised`` the broker's, as this client can reach it; ``store_host`` the
    same as IPv4, which records and message ids need.
    """

    def __init__(
        self, write: Callable[[Command], None], remote: str, advertised: str, store_host: str
    ) -> None:
        self.remote = remote
        self.advertised = advertised
        self.store_host = store_host
        self._write = write
        self._opaques = itertools.count()
        self._calls: dict[int, asyncio.Future[Command]] = {}

    def notify_members_changed(self, group: str) -> None:
        """Let the client rebalance its queues of the group now (sheet 8.1)."""
        self.ask(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def reset_offsets(self, moved: Moved, language: str) -> None:
        """Let the client's group go on elsewhere. C++ clients read another form than others (sheet 2.6)."""
        ext = {
            "topic": moved.topic,
            "group": moved.group,
            "timestamp": str(moved.timestamp_ms),
            "isForce": str(moved.is_forced).lower(),
        }
        table: object = object_keys(queue_offsets(moved))
        if language == "CPP":
            table = [{**queue, "offset": offset} for queue, offset in queue_offsets(moved)]
        self.ask(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, dumps({"offsetTable": table}))

    def ask(self, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> None:
        """Send the client a request that it does not answer."""
        self._write(Command.oneway(code, next(self._opaques), ext, body))

    async def call(
        self, code: RequestCode, ext: dict[str, str], body: bytes = b"", timeout_s: float = CALL_S
    ) -> Command:
        """The client's answer to a request. Raises RemotingError if it gives none in time, or goes away."""
        opaque = next(self._opaques)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = answer
        self._write(Command.request(code, opaque, ext, body))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise RemotingError(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"{self.remote} has not answered in {timeout_s:g} s"
            ) from None
        finally:
            del self._calls[opaque]

    def answered(self, answer: Command) -> None:
        """The client has answered a request, which may have stopped waiting."""
        call = self._calls.get(answer.opaque)
        if call is not None and not call.done():
            call.set_result(answer)

    def end(self) -> None:
        """No answers will come any more."""
        for call in self._calls.values():
            if not call.done():
                call.set_exception(
                    RemotingError(ResponseCode.SYSTEM_ERROR, f"{self.remote} has closed its connection")
                )


def queue_offsets(moved: Moved) -> Iterator[tuple[dict[str, str | int], int]]:
    """The offsets by queues as clients name them."""
    for queue_id, offset in moved.offsets.items():
        yield {"brokerName": BROKER, "queueId": queue_id, "topic": moved.topic}, offset
