"""Large messages are counted before they are read, so a receive reads no more than it returns."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.pops import ALL_QUEUES
from mocketmq.broker.consuming.receiver import MAX_MESSAGES, InFlightMessage
from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.store.database import Database
from tests.support.api import running_api
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, receive, running_broker, send

LARGE_BYTES = 900_000
FITTING = MAX_RECEIVED_BYTES // LARGE_BYTES
MESSAGES = 3 * FITTING + 1

Receive = Callable[[Broker], Awaitable[Sequence[InFlightMessage]]]


async def receive_many(broker: Broker) -> Sequence[InFlightMessage]:
    return await receive(broker, MAX_MESSAGES)


async def receive_in_order(broker: Broker) -> Sequence[InFlightMessage]:
    return await receive(broker, MAX_MESSAGES, ordered=True)


async def pop(broker: Broker) -> Sequence[InFlightMessage]:
    pops = broker.pops
    return (await pops.pop(await pops.admit(GROUP, TOPIC, ALL_QUEUES), 32, 30 * S)).messages


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of body bytes that each query has read."""
    rows, found = Database.rows, []

    async def counted(
        database: Database, sql: str, parameters: Sequence[object] = (), **few: Any
    ) -> list[Any]:
        read = await rows(database, sql, parameters, **few)
        found.append(sum(len(value) for row in read for value in row if isinstance(value, bytes)))
        return read

    monkeypatch.setattr(Database, "rows", counted)
    return found


@pytest.mark.parametrize("take", [receive_many, receive_in_order, pop])
async def test_receive_reads_only_the_messages_it_returns(take: Receive, reads: list[int]) -> None:
    async with running_broker() as broker:
        for number in range(MESSAGES):
            await send(broker, f"{number:02}".ljust(LARGE_BYTES), queue=number % 4)
        times: Counter[str] = Counter()
        for _ in range(2):
            for _ in range(MESSAGES):
                reads.clear()
                taken = await take(broker)
                size = sum(len(one.message.body) for one in taken)
                assert size <= MAX_RECEIVED_BYTES
                assert sum(reads) == size
                times.update(one.message.body.decode().strip() for one in taken)
                if take is receive_in_order:  # otherwise further receives get nothing
                    await acknowledge(broker, taken)
                if len(times) == MESSAGES and not taken:
                    break
            await broker.mover.advance(31 * S)
        again = 1 if take is receive_in_order else 2
        assert times == {f"{number:02}": again for number in range(MESSAGES)}


async def test_a_message_above_the_limit_is_received_alone(reads: list[int]) -> None:
    async with running_broker(max_message_bytes=8 << 20) as broker:
        for _ in range(3):
            await send(broker, " " * (MAX_RECEIVED_BYTES + 1))
        for _ in range(3):
            reads.clear()
            assert len(await receive(broker)) == 1
            assert sum(reads) == MAX_RECEIVED_BYTES + 1


async def test_peek_reads_only_the_messages_it_returns(reads: list[int]) -> None:
    async with running_broker() as broker:
        for number in range(MESSAGES):
            await send(broker, f"{number:02}".ljust(LARGE_BYTES), queue=number % 4)
        pops = broker.pops
        target = await pops.admit(GROUP, TOPIC, ALL_QUEUES)
        for again in range(2):
            reads.clear()
            peeked = await pops.peek(target, 32)
            assert len(peeked.messages) == FITTING
            assert peeked.rest == MESSAGES
            assert sum(reads) == FITTING * LARGE_BYTES
            if not again:
                while await pop(broker):
                    pass
                await broker.mover.advance(31 * S)


async def test_a_browser_of_a_queue_is_shown_it_page_by_page() -> None:
    async with running_api() as api:
        for number in range(FITTING + 2):
            await api.send(body=f"{number}".ljust(LARGE_BYTES), queue_id=0)
        where, pages = "/v1/topics/orders/queues/0/messages?max=256&offset=", []
        page: Any = {"next_offset": 0, "max_offset": 1}
        while page["next_offset"] < page["max_offset"]:
            page = await api.ok("GET", f"{where}{page['next_offset']}")
            pages.append([one["body"].strip() for one in page["messages"]])
        assert pages == [[f"{n}" for n in range(FITTING)], [f"{n}" for n in range(FITTING, FITTING + 2)]]
