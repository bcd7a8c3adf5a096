"""Creates and moves the logical queues of static topics at two brokers, with the requests of ``mqadmin``.

It also pulls from logical queues, as a client of 5.x does.
"""

import json
from collections.abc import Sequence
from typing import Any

from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.broker_pairs import COMMIT, PULL, A, B, Pair, send
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient

STATIC = 513
NOT_FOUND, RETRY = 19, 20
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


async def move_between(pair: Pair, before: str, after: str) -> None:
    """Create a logical queue at broker-a, and move it to broker-b between sends of these bodies."""
    await create(pair, AT_A)
    for body in before:
        await send(pair.a, body)
    await move(pair)
    for body in after:
        await send(pair.b, body)


def of_queue(number: int = 0, **more: str) -> dict[str, str]:
    return {"topic": TOPIC, "consumerGroup": GROUP, "queueId": str(number), **more}


async def pull(
    client: RemotingClient, offset: int, number: int = 0, *, flags: int = 0, wait_ms: int = 0, commit: int = 0
) -> Command:
    ext = of_queue(
        number,
        queueOffset=str(offset),
        maxMsgNums="32",
        sysFlag=str(flags),
        commitOffset=str(commit),
        suspendTimeoutMillis=str(wait_ms),
        subVersion="0",
    )
    return await client.call(PULL, ext)


def bounds(answer: Command) -> tuple[int, int, int, int]:
    """The code of a pull's answer, and its next, least and largest offset."""
    names = ("nextBeginOffset", "minOffset", "maxOffset")
    next_offset, least, largest = (int(answer.ext[name]) for name in names)
    return answer.code, next_offset, least, largest


async def pull_all(client: RemotingClient, offset: int = 0, number: int = 0) -> list[tuple[str, int]]:
    """Pull like a client of 5.x until nothing is left: bodies and logical offsets."""
    found = []
    while True:
        answer = await pull(client, offset, number)
        if answer.code == 0:
            delta = int(answer.ext["offsetDelta"])
            found += [(each.body.decode(), each.queue_offset + delta) for each in decode_records(answer.body)]
        elif answer.code != RETRY:
            assert answer.code == NOT_FOUND
            return found
        offset = int(answer.ext["nextBeginOffset"])


async def offset_of(client: RemotingClient, code: int, number: int = 0, **more: str) -> int:
    return int((await client.ok(code, of_queue(number, **more))).ext["offset"])


async def commit(client: RemotingClient, offset: int, number: int = 0) -> None:
    await client.ok(COMMIT, of_queue(number, commitOffset=str(offset)))
