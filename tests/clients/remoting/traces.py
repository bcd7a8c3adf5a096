"""Trace records in the messages of clients (TraceDataEncoder of 4.9.8)."""

import asyncio
from collections.abc import Callable, Mapping
from uuid import uuid4

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S

Record = Mapping[str, str]

TOPIC = "RMQ_SYS_TRACE_TOPIC"
NORMAL, HALF, COMMIT, DELAY = "0", "1", "2", "3"
"""Kinds of messages."""

_SENT = ("topic", "message_id", "tags", "keys", "store_host")
_WHO = ("timestamp", "region", "group")
_FIELDS = {
    "Pub": (*_WHO, *_SENT, "body_length", "cost", "kind", "offset_message_id", "success", "client_host"),
    "SubBefore": (*_WHO, "request_id", "message_id", "times", "keys"),
    "SubAfter": ("request_id", "message_id", "cost", "success", "keys", "code", "timestamp", "group"),
    "EndTransaction": (*_WHO, *_SENT, "kind", "transaction_id", "state", "from_check"),
}


def decode(body: str) -> list[Record]:
    """Return the trace records of a message; ``type`` tells their kind."""
    found: list[Record] = []
    for line in filter(None, body.split("\x02")):
        kind, *values = line.split("\x01")
        found.append({"type": kind, **dict(zip(_FIELDS[kind], values, strict=False))})
    return found


class Traces:
    """All records in a topic."""

    def __init__(self, broker: RemotingBroker, topic: str) -> None:
        self.records: list[Record] = []
        self.keys: set[str] = set()
        """Keys of the trace messages."""
        self._broker = broker
        self._topic = topic
        self._group = f"traces-{uuid4().hex}"

    async def read(self, is_complete: Callable[[list[Record]], bool]) -> list[Record]:
        """Read all records, once they are complete."""
        async with asyncio.timeout(WAIT_S):
            while not is_complete(self.records):
                await self._take()
        return self.records

    async def of(self, *kinds: str, message_id: str) -> list[Record]:
        """Wait for a record of each of these kinds about a message, and return them in order."""

        def about() -> list[list[Record]]:
            return [
                [one for one in self.records if one["type"] == kind and one["message_id"] == message_id]
                for kind in kinds
            ]

        await self.read(lambda _: all(about()))
        return [found[0] for found in about()]

    async def _take(self) -> None:
        messages = await self._broker.control.receive(
            self._topic, group=self._group, max_messages=32, wait="5s"
        )
        for message in messages:
            self.keys.update(message["keys"])
            self.records += decode(message["body"])
        if messages:
            await self._broker.control.acknowledge(self._group, messages)
