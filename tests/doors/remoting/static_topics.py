"""Creates and moves the logical queues of static topics at two brokers, with the requests of ``mqadmin``."""

import json
from collections.abc import Sequence
from typing import Any

from tests.doors.remoting.broker_pairs import A, B, Pair
from tests.support.brokers import TOPIC
from tests.support.remoting import RemotingClient

STATIC = 513
BLOCK = 10_000
"""Step of logical offsets at which ``mqadmin`` lets the queue of another broker begin."""

Item = tuple[int, int, str, int]
"""A mapping item: generation, queue id, broker and logical offset."""
Hosted = dict[int, Sequence[Item]]
"""The mapping items of logical queues."""

ALTERNATING: dict[str, Hosted] = {
    A: {0: [(0, 0, A, 0)], 2: [(0, 1, A, 0)]},
    B: {1: [(0, 0, B, 0)], 3: [(0, 1, B, 0)]},
}
"""Four logical queues, in turn at two brokers."""
AT_A: dict[str, Hosted] = {A: {0: [(0, 0, A, 0)]}, B: {}}
"""One logical queue, at broker-a."""


def detail(broker: str, hosted: Hosted, *, queues: int = 1, epoch: int = 1, **changed: Any) -> dict[str, Any]:
    """A broker's mapping as the body of a request."""
    items = {
        str(number): [
            {
                "gen": generation,
                "queueId": queue_id,
                "bname": name,
                "logicOffset": start,
                "startOffset": 0,
                "endOffset": -1,
                "timeOfStart": -1,
                "timeOfEnd": -1,
            }
            for generation, queue_id, name, start in some
        ]
        for number, some in hosted.items()
    }
    return {
        "topic": TOPIC,
        "bname": broker,
        "scope": "__global__",
        "totalQueues": queues,
        "epoch": epoch,
        "dirty": False,
        "currIdMap": {},
        "hostedQueues": items,
        **changed,
    }


def header(queues: int, **changed: str) -> dict[str, str]:
    """The header for a broker with so many queues."""
    return {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "force": "false",
        **changed,
    }


async def put(client: RemotingClient, mapping: dict[str, Any], queues: int) -> None:
    """Give the broker its mapping."""
    await client.ok(STATIC, header(queues), json.dumps(mapping).encode())


async def create(pair: Pair, wanted: dict[str, Hosted]) -> None:
    """Create a static topic whose logical queues are at these brokers."""
    total = sum(map(len, wanted.values()))
    for client, name in ((pair.a, A), (pair.b, B)):
        await put(client, detail(name, wanted[name], queues=total), len(wanted[name]))


class Move:
    """Moves the only logical queue of the topic from broker-a to broker-b, in the steps of ``mqadmin``."""

    def __init__(self, pair: Pair, start: int = BLOCK) -> None:
        self._pair = pair
        self._items: list[Item] = [(0, 0, A, 0), (1, 0, B, -1)]
        self._start = start

    async def begin(self) -> None:
        """Let broker-b take messages, and broker-a refuse them."""
        await put(self._pair.b, detail(B, {0: self._items}, epoch=2), 1)
        await put(self._pair.a, detail(A, {0: self._items}, epoch=2), 1)

    async def decide(self) -> None:
        """Set the logical offset at which the queue of broker-b begins."""
        self._items[1] = (1, 0, B, self._start)
        await put(self._pair.b, detail(B, {0: self._items}, epoch=2), 1)


async def move(pair: Pair) -> None:
    """Move the only logical queue to broker-b."""
    moving = Move(pair)
    await moving.begin()
    await moving.decide()
