"""The pending log on a mocketmq broker: what is read back, and what is carried over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mocketmq.calling.connection import ClientConnection
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.relay.judging import Judged
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.relay.rocketmq.brokers import RemoteBroker
from mocketmq.relay.rocketmq.messages import MessageContent, pending_of
from mocketmq.relay.rocketmq.pending_log import PendingLog
from mocketmq.relay.rocketmq.queue import RemoteQueue
from tests.support.relays import DAY_US, GROUP, LATER, ORDERS, user_of
from tests.support.remoting import running_remoting

DUE_US = 1_900_000_000 * US_PER_S


def pending(number: int) -> RelayedMessage:
    """Return a pending message that arrived at this place."""
    message = MessageContent({"n": str(number)}, b"body %d" % number, born_ms=1)
    return pending_of(f"b/0/{number}/1", message, Judged(ORDERS, DUE_US + number * 1_000))


@asynccontextmanager
async def queue() -> AsyncIterator[RemoteQueue]:
    """Return a queue of the pending topic."""
    async with running_remoting(clock="real") as remoting:
        host, port = remoting.emulator.settings.host, remoting.server.broker_port
        async with user_of(host, port) as user:
            await user.make_topic(f"{LATER}-pending", 1)
        address = f"{host}:{port}"
        broker = RemoteBroker("mocketmq", ClientConnection(address), ClientConnection(address))
        try:
            yield RemoteQueue(broker, GROUP, f"{LATER}-pending", 0)
        finally:
            await broker.close()


async def restored(
    queue: RemoteQueue, arrived: int = 0, carry_after_us: int = DAY_US
) -> tuple[PendingLog, list[str]]:
    """Return the log as another relay finds it, and the ids that it lists as pending."""
    log = PendingLog(queue, carry_after_us)
    found: dict[Settled, str] = {}
    async for some in log.restore(arrived):
        for each in some:
            if isinstance(each, RelayedMessage):
                found[Settled(each.number, each.due_us)] = each.id
            else:
                found.pop(each, None)
    return log, list(found.values())


async def test_log_is_restored_from_its_last_settled_record() -> None:
    async with queue() as pending_queue:
        log, found = await restored(pending_queue)
        assert found == []
        messages = [pending(number) for number in range(100)]
        assert await log.keep(messages) == {}
        await log.settle(messages[:40])
        await log.settle(messages[50:60])
        log, found = await restored(pending_queue, arrived=98)
        assert sorted(found) == sorted(each.id for each in messages[40:50] + messages[60:])
        assert log.known == {"b/0/98/1", "b/0/99/1"}
        assert log.holds(messages[40])
        assert not log.holds(messages[39])
        await log.commit()
        assert await pending_queue.committed() >= 1
        await log.settle(messages[40:50] + messages[60:])
        await log.commit()
        assert await pending_queue.committed() == await pending_queue.end() == 103
        assert (await restored(pending_queue))[1] == []


async def test_a_message_is_read_back_unchanged() -> None:
    async with queue() as pending_queue:
        log, _ = await restored(pending_queue)
        await log.keep([pending(7)])
        [[found]] = [some async for some in PendingLog(pending_queue, DAY_US).restore(0)]
        assert found == pending(7)


async def test_permanently_refused_message_blocks_no_others() -> None:
    async with queue() as pending_queue:
        log, _ = await restored(pending_queue)
        message = MessageContent({"long": '"' * 20_000}, b"")
        large = pending_of("b/0/1/1", message, Judged(ORDERS, DUE_US))
        [(name, error)] = (await log.keep([pending(0), large, pending(2)])).items()
        assert name == "b/0/1/1"
        assert "the properties take" in str(error)
        assert sorted((await restored(pending_queue))[1]) == ["b/0/0/1", "b/0/2/1"]


async def test_large_messages_are_kept() -> None:
    async with queue() as pending_queue:
        log, _ = await restored(pending_queue)
        bodies = [bytes(4 << 20), bytes(1 << 20), b"small", bytes(700_000), bytes(700_000)]
        large = [
            pending_of(f"b/0/{number}/1", MessageContent({"a": "b"}, body), Judged(ORDERS, DUE_US))
            for number, body in enumerate(bodies)
        ]
        assert await log.keep(large) == {}
        assert sorted((await restored(pending_queue))[1]) == sorted(each.id for each in large)


async def test_foreign_records_are_skipped() -> None:
    async with queue() as pending_queue:
        for message in (
            MessageContent({}, b"?"),
            MessageContent({"RELAY_SETTLED": "1"}, b"?"),
            MessageContent({"RELAY_ID": "x"}, b"?"),
        ):
            await pending_queue.append(message)
        log, _ = await restored(pending_queue)
        await log.keep([pending(1)])
        assert (await restored(pending_queue))[1] == ["b/0/1/1"]


async def test_old_records_are_written_again_at_the_end() -> None:
    async with queue() as pending_queue:
        log, _ = await restored(pending_queue, carry_after_us=60 * US_PER_S)
        messages = [pending(number) for number in range(50)]
        await log.keep(messages)
        await log.settle(messages[10:20])
        assert not await log.carry(wall_us())
        assert await pending_queue.end() == 51
        await log.carry(wall_us() + 120 * US_PER_S)
        assert await pending_queue.end() == 51 + 40
        await log.commit()
        assert await pending_queue.committed() == 51
        await log.settle(messages[:5])
        log, found = await restored(pending_queue)
        assert sorted(found) == sorted(each.id for each in messages[5:10] + messages[20:])


async def test_long_log_of_few_pending_messages_is_compacted() -> None:
    async with queue() as pending_queue:
        log, _ = await restored(pending_queue)
        log.spare = 20
        messages = [pending(number) for number in range(100)]
        await log.keep(messages)
        await log.settle(messages[1:])
        await log.carry(wall_us())
        await log.commit()
        assert await pending_queue.committed() == 101
        assert (await restored(pending_queue))[1] == ["b/0/0/1"]
