"""Two brokers of one process, each with a remoting client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mocketmq.clock import US_PER_S
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import Remoting, RemotingClient, running_remoting

A, B = "broker-a", "broker-b"
SEND, PULL, QUERY, COMMIT, MAX_OFFSET, LOCK = 10, 11, 14, 15, 30, 41

QUEUES = 2


class Pair:
    """Two brokers, with a client of each."""

    def __init__(self, remoting: Remoting, a: RemotingClient, b: RemotingClient) -> None:
        self.remoting = remoting
        self.broker = remoting.broker
        self.a, self.b = a, b

    @property
    def port_of_b(self) -> int:
        return self.broker.registry.brokers.broker_named(B).port

    async def advance(self, seconds: float) -> None:
        await self.broker.mover.advance(int(seconds * US_PER_S))

    async def names(self) -> list[str]:
        """Return the brokers in the route of the topic."""
        async with self.remoting.another(self.remoting.server.namesrv_port) as client:
            answer = await client.call(105, {"topic": TOPIC})
        if answer.code == 17:
            return []
        return [each["brokerName"] for each in json.loads(answer.body)["brokerDatas"]]

    @asynccontextmanager
    async def back(self) -> AsyncIterator[RemotingClient]:
        """Start broker-b again, and connect to it."""
        await self.broker.broker_lives.start(B)
        async with self.remoting.another(self.port_of_b) as client:
            yield client


@asynccontextmanager
async def running_pair(**changed: Any) -> AsyncIterator[Pair]:
    settings = {"brokers": 2, "topic_queues": QUEUES, **changed}
    async with running_remoting(**settings) as remoting:
        port = remoting.broker.registry.brokers.broker_named(B).port
        async with remoting.another(port) as b:
            yield Pair(remoting, remoting.client, b)


async def send(client: RemotingClient, body: str, queue: int = 0, /, **properties: str) -> dict[str, str]:
    return dict((await client.ok(SEND, message_to(queue, **properties), body.encode())).ext)


def message_to(queue: int, /, **properties: str) -> dict[str, str]:
    return {
        "producerGroup": "makers",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES),
        "queueId": str(queue),
        "sysFlag": "0",
        "bornTimestamp": "0",
        "flag": "0",
        "properties": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
    }


async def pulled(client: RemotingClient, queue: int = 0, topic: str = TOPIC) -> list[WireRecord]:
    ext = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "0",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
    }
    answer = await client.call(PULL, ext)
    return decode_records(answer.body) if answer.code == 0 else []


async def bodies(client: RemotingClient, queue: int = 0, topic: str = TOPIC) -> list[str]:
    return [record.body.decode() for record in await pulled(client, queue, topic)]


# Routes and queues
