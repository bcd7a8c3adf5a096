"""With a log in memory, each message of a partition is forwarded once and never early, whatever fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocketmq.relay import serving
from mocketmq.relay.partition import RelayedMessage
from mocketmq.relay.serving import Serving
from mocketmq.relay.shelf import Shelf
from mocketmq_compat.delay.memory_store import MemoryStore
from tests.relay.log_broker import Failure, LogBroker, LogPartition, Sent
from tests.support.patience import PATIENCE_S


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    """Make retries immediate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "PAUSES_S", (0.001,))
        yield


def open_shelf() -> Shelf:
    return Shelf(MemoryStore())


@asynccontextmanager
async def served(broker: LogBroker) -> AsyncIterator[LogPartition]:
    """Start a relay that serves the partition."""
    partition = LogPartition(broker)
    one = Serving(partition, open_shelf)
    try:
        yield partition
    finally:
        await one.end()


Step = int | Failure | None
"""Send a message with this delay in milliseconds, let a call fail, or let another relay take over."""

STEPS = st.lists(
    st.one_of(
        st.integers(-5, 20),
        st.sampled_from(["trouble", "lost before", "lost after"]),
        st.none(),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(STEPS)
def test_each_message_leaves_once_and_never_early(steps: list[Step]) -> None:
    asyncio.run(play(steps))


async def play(steps: list[Step]) -> None:
    broker = LogBroker()
    async with asyncio.timeout(PATIENCE_S):
        relays = [Serving(LogPartition(broker), open_shelf)]
        try:
            for step in steps:
                match step:
                    case int():
                        await broker.send(step)
                    case str():
                        broker.failures.append(step)
                    case None:
                        await relays.pop().end()  # otherwise both relays would compete for ever
                        relays.append(Serving(LogPartition(broker), open_shelf))
                await asyncio.sleep(0)
            await broker.until_out(len(broker.sent))
        finally:
            await relays.pop().end()
    assert sorted(one.number for one in broker.out) == [one.number for one in broker.sent]
    for number, at_us in broker.out:
        assert at_us >= broker.sent[number].due_us


async def test_messages_leave_in_order_of_due_time_then_arrival() -> None:
    broker = LogBroker()
    for delay_ms in (-10, -30, -20, -30):
        await broker.send(delay_ms)
    broker.sent[3] = broker.sent[3]._replace(due_us=broker.sent[1].due_us)
    async with served(broker):
        await broker.until_out(4)
    assert [one.number for one in broker.out] == [1, 3, 2, 0]


async def test_unsendable_message_is_retried_and_blocks_no_others() -> None:
    broker = LogBroker()
    broker.stay.add(0)
    async with served(broker):
        for _ in range(3):
            await broker.send(0)
        await broker.until_out(2)
        assert {one.number for one in broker.out} == {1, 2}
        broker.stay.clear()
        await broker.until_out(3)
    assert [one.number for one in broker.out][2:] == [0]


async def test_a_defect_is_logged_and_the_partition_taken_over_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker, keep = LogBroker(), LogPartition.keep
    defects = [ZeroDivisionError("a defect")]

    async def fails_once(self: LogPartition, arrivals: Sequence[Sent]) -> Sequence[RelayedMessage]:
        if defects:
            raise defects.pop()
        return await keep(self, arrivals)

    monkeypatch.setattr(LogPartition, "keep", fails_once)
    async with served(broker) as partition:
        await broker.send(0)
        await broker.until_out(1)
        assert partition.restored == 2
    assert "a defect" in caplog.text
