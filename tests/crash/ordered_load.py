"""Producers of message groups and consumers of a FIFO group, by gRPC, which run until a broker is killed."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.grpc_proxy.codes import Code
from mocketmq.message.broker_share import broker_names
from tests.crash.judge import Judge
from tests.crash.load import TOPIC
from tests.crash.order import OrderJudge, Place
from tests.support.grpc import FIFO, GrpcClient

GROUP = "ledger"
DEAD_LETTERS = f"%DLQ%{GROUP}"
CONSUMERS = 2
MESSAGE_GROUPS = 4
BRIEF_S, LONG_S = 10, 300
"""Invisible times by the emulated clock: until one of the next moves, and until some lives later."""
RETRY_S = 1
LONGEST_MOVE_MS = 60_000
"""Longest move of the clock in a load: until it is answered, the clock may be ahead by so much."""
GONE = (GRPCError, StreamTerminatedError, OSError, asyncio.TimeoutError)


class OrderedLoad:
    """Concurrent producers and consumers in order of one topic, with choices of a seeded ``random``.

    ``on_act`` is called after each of their acts.
    """

    def __init__(
        self,
        client: GrpcClient,
        judge: Judge,
        order: OrderJudge,
        random: Random,
        brokers: int,
        on_act: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._judge = judge
        self._order = order
        self._random = random
        self._brokers = broker_names(brokers)
        self._on_act = on_act

    async def run(self) -> None:
        """Run until the process dies."""
        async with asyncio.TaskGroup() as tasks:
            for act in (self._send, *[self._consume] * CONSUMERS):
                tasks.create_task(self._until_gone(act))

    async def _until_gone(self, act: Callable[[], Awaitable[None]]) -> None:
        with suppress(*GONE):
            while True:
                await act()
                self._on_act()

    async def _send(self) -> None:
        message_id = f"{self._random.getrandbits(64):016X}"
        message = self._client.message(
            "in order",
            TOPIC,
            message_group=f"group-{self._random.randrange(MESSAGE_GROUPS)}",
            message_type=FIFO,
        )
        message.system_properties.message_id = message_id
        self._judge.sending([{"message_id": message_id}])
        answer = await self._client.send(message)
        if _is_up(answer.status):
            assert answer.status.code == Code.OK, answer
            self._judge.sent({"message_id": message_id, "store_ms": 0, "due_ms": None})

    async def _consume(self) -> None:
        """Receive some messages of a broker, and settle them, beginning with the first of each queue."""
        random = self._random
        position = random.randrange(len(self._brokers))
        got = await self._receive(position, random.randint(1, 32), random.choice((BRIEF_S, LONG_S)))
        intention = random.choice(("acknowledge", "acknowledge", "bury", "retry", "forget"))
        if not got or intention == "forget":
            return
        if intention == "acknowledge":
            await self._acknowledge(position, got[: random.choice((len(got), random.randint(1, len(got))))])
        elif intention == "bury":
            await self._bury(position, got[0])
        else:
            await self._retry(position, got[0])

    def _place(self, position: int, message: Any) -> Place:
        """The message's queue, as the JSON API numbers it, and offset."""
        system = message.system_properties
        return Place(system.queue_id * len(self._brokers) + position, system.queue_offset)

    async def _receive(self, position: int, limit: int, invisible_s: int) -> list[Any]:
        """Receive messages of all queues of a broker."""
        sent_ms = self._judge.clock_ms
        status, got = await self._client.try_receive(
            GROUP,
            TOPIC,
            invisible_s=invisible_s,
            wait_s=0.02,
            batch_size=limit,
            message_queue={"broker": {"name": self._brokers[position]}},
        )
        if not _is_up(status):
            return []
        assert status.code in (Code.OK, Code.MESSAGE_NOT_FOUND), status
        offsets: dict[int, list[int]] = defaultdict(list)
        for queue, offset in (self._place(position, each) for each in got):
            offsets[queue].append(offset)
        for queue, each in offsets.items():
            self._order.received(
                queue,
                each,
                by_ms=self._judge.clock_ms + LONGEST_MOVE_MS,
                hidden_until_ms=sent_ms + invisible_s * 1_000,
            )
        return got

    async def _acknowledge(self, position: int, got: Sequence[Any]) -> None:
        places = [self._place(position, each) for each in got]
        self._order.settling(places)
        answer = await self._client.ack(*got, group=GROUP, topic=TOPIC)
        for place, entry in zip(places, answer.entries, strict=True):
            self._settled(place, entry.status)

    async def _bury(self, position: int, message: Any) -> None:
        """Make a message a dead letter."""
        system, place = message.system_properties, self._place(position, message)
        self._order.burying(system.message_id)
        self._order.settling([place])
        answer = await self._client.call(
            "ForwardMessageToDeadLetterQueue",
            group={"name": GROUP},
            topic={"name": TOPIC},
            receipt_handle=system.receipt_handle,
            message_id=system.message_id,
        )
        if self._settled(place, answer.status):
            self._order.buried(system.message_id)

    def _settled(self, place: Place, status: Any) -> bool:
        """Whether a message was settled. A receipt may have expired, and its broker may be down."""
        if status.code == Code.OK:
            self._order.settled(place)
            return True
        assert status.code in (Code.INVALID_RECEIPT_HANDLE, Code.INTERNAL_SERVER_ERROR), status
        self._order.refused(place)
        return False

    async def _retry(self, position: int, message: Any) -> None:
        until_ms = self._judge.clock_ms + RETRY_S * 1_000
        self._order.retrying(self._place(position, message), until_ms)
        status = (await self._client.change(message, RETRY_S, GROUP, TOPIC)).status
        assert not _is_up(status) or status.code in (Code.OK, Code.INVALID_RECEIPT_HANDLE), status

    async def drain(self) -> None:
        """Consume all messages, of which none is in flight any more."""
        for position in range(len(self._brokers)):
            while got := await self._receive(position, 32, LONG_S):
                await self._acknowledge(position, got)


def _is_up(status: Any) -> bool:
    """Whether the broker of the request runs."""
    return bool(status.code != Code.INTERNAL_SERVER_ERROR)
