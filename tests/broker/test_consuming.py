"""Consuming by receipt: who receives which message, when it is redelivered, and what filters skip."""

import asyncio
import errno
import gc
from typing import Any

import pytest

from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.errors import (
    GroupNotFoundError,
    NoPermissionError,
    StoreBusyError,
)
from mocketmq.message.message import Message
from mocketmq.store.writer import Work, WriterLimits
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S

# Receive


async def test_messages_of_all_queues_are_received_in_order() -> None:
    async with running_broker() as broker:
        for n in range(20):
            await send(broker, str(n))
        assert len({message.queue_key for message in await visible(broker)}) > 1
        taken = [*await receive(broker, 7), *await receive(broker, 100)]
        assert bodies(taken) == [str(n) for n in range(20)]


async def test_a_received_message_is_invisible_to_its_group_only() -> None:
    async with running_broker() as broker:
        await send(broker)
        assert len(await receive(broker)) == 1
        assert await receive(broker) == []
        assert len(await receive(broker, group="shipping")) == 1


async def test_an_unsettled_message_is_redelivered_first() -> None:
    async with running_broker() as broker:
        await send(broker, "slow")
        [first] = await receive(broker, invisible_us=10 * S)
        assert first.visible_us == broker.clock.now_us() + 10 * S
        await send(broker, "later")
        await broker.mover.advance(10 * S - 1)
        assert bodies(await receive(broker, invisible_us=60 * S)) == ["later"]
        await send(broker, "last")
        await broker.mover.advance(1)
        again = await receive(broker)
        assert [(one.message.body, one.times) for one in again] == [(b"slow", 2), (b"last", 1)]
        [(_, error)] = (await acknowledge(broker, [first])).failed
        assert "expired" in str(error)
        assert (await acknowledge(broker, again)).failed == []


async def test_an_acknowledged_message_is_never_redelivered() -> None:
    async with running_broker() as broker:
        await send(broker)
        taken = await receive(broker)
        assert (await acknowledge(broker, taken)).done == [taken[0].handle]
        await broker.mover.advance(3600 * S)
        assert await receive(broker) == []
        [(_, error)] = (await acknowledge(broker, taken)).failed
        assert "settled or removed" in str(error)


async def test_valid_receipts_are_acknowledged_beside_invalid_ones() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        settled = await broker.settler.acknowledge(
            GROUP, ["nonsense", "1-2", "1-2-3-4", taken.handle, "7-1-0"]
        )
        assert settled.done == [taken.handle]
        assert [handle for handle, _ in settled.failed] == ["nonsense", "1-2", "1-2-3-4", "7-1-0"]


async def test_the_receipt_of_another_group_is_refused() -> None:
    async with running_broker() as broker:
        await send(broker)
        [mine], [theirs] = await receive(broker), await receive(broker, group="shipping")
        assert mine.handle != theirs.handle
        for settled in (
            await acknowledge(broker, [theirs]),
            await give_back(broker, [theirs]),
            await broker.settler.extend(GROUP, [theirs.handle], 1),
        ):
            assert (settled.done, len(settled.failed)) == ([], 1)
        assert (await acknowledge(broker, [theirs], "shipping")).done
        with pytest.raises(GroupNotFoundError):
            await acknowledge(broker, [mine], "nobody")


async def test_extended_receipt_lasts_from_now() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=10 * S)
        await broker.mover.advance(9 * S)
        assert (await broker.settler.extend(GROUP, [taken.handle], 5 * S)).done
        await broker.mover.advance(5 * S - 1)
        assert await receive(broker) == []
        await broker.mover.advance(1)
        assert len(await receive(broker)) == 1
        assert (await broker.settler.extend(GROUP, [taken.handle], 5 * S)).failed


async def test_extending_by_zero_makes_the_message_visible_at_once() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await broker.settler.extend(GROUP, [taken.handle], 0)
        assert [one.times for one in await receiver] == [2]


# Long polls


async def test_a_waiting_receiver_gets_a_new_message() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await send(broker, "elsewhere", topic="other")
        assert not receiver.done()
        await send(broker, "here")
        assert bodies(await receiver) == ["here"]
        assert broker.polls.count == 0


async def test_a_waiting_receiver_gets_a_message_of_a_new_queue() -> None:
    async with running_broker() as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, PERM_READ | PERM_WRITE)
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        async with asyncio.timeout(PATIENCE_S):
            while not broker.polls.count:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await broker.registry.topics.put(TOPIC, 2, 2, PERM_READ | PERM_WRITE)
            await send(broker, queue=1)
            assert bodies(await receiver) == ["hello"]


async def test_one_message_goes_to_one_of_many_waiting_receivers() -> None:
    async with running_broker() as broker:
        receivers = [asyncio.create_task(receive(broker, 1, wait_s=30)) for _ in range(5)]
        for n in range(5):
            await send(broker, str(n))
        found = [bodies(taken) for taken in await asyncio.gather(*receivers)]
        assert sorted(found) == [[str(n)] for n in range(5)]


async def test_wait_ends_in_time() -> None:
    async with running_broker() as broker:
        assert await receive(broker, wait_s=0.01) == []


async def test_receiver_disconnecting_while_waiting_consumes_nothing() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await send(broker, topic="other")
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        await send(broker)
        assert [one.times for one in await receive(broker)] == [1]


@pytest.mark.interpreted
async def test_receiver_disconnecting_during_the_commit_frees_its_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker, level=1)
        await broker.mover.advance(1 * S)
        await broker.registry.groups.put(GROUP, 16, 1)
        commit, writing = broker.store.writer.commit, asyncio.Event()

        async def watched(work: Work, **how: Any) -> object:
            writing.set()
            return await commit(work, **how)

        monkeypatch.setattr(broker.store.writer, "commit", watched)
        receiver = asyncio.create_task(receive(broker))
        await writing.wait()
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        [taken] = await receive(broker, wait_s=30)
        assert taken.times == 1
        assert (await acknowledge(broker, [taken])).done


@pytest.mark.interpreted
async def test_failure_after_the_receiver_has_left_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker() as broker:
        await send(broker)
        await broker.registry.groups.put(GROUP, 16, 1)
        writing = asyncio.Event()

        async def fail(_work: Work, **_how: Any) -> object:
            writing.set()
            await asyncio.sleep(0)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(broker.store.writer, "commit", fail)
        receiver = asyncio.create_task(receive(broker))
        await writing.wait()
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        for _ in range(10):
            await asyncio.sleep(0)
        monkeypatch.undo()
        gc.collect()  # on collection, asyncio reports exceptions that were never retrieved
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.name == "mocketmq.event_loop"
    assert "Input/output error" in caplog.text


async def test_released_messages_are_visible_at_once_and_do_not_count() -> None:
    async with running_broker() as broker:
        await send(broker)
        taken = await receive(broker)
        await broker.receiver.release(GROUP, taken)
        assert [one.times for one in await receive(broker, wait_s=30)] == [1]


async def test_refused_receive_loses_no_message() -> None:
    async with running_broker() as broker:
        await send(broker, "taken before")
        await receive(broker, invisible_us=1)
        await broker.mover.advance(1)
        await send(broker, "new")
        writer = broker.store.writer
        writer.limits = WriterLimits(waiting=0)
        with pytest.raises(StoreBusyError):
            await receive(broker)
        writer.limits = WriterLimits()
        assert bodies(await receive(broker)) == ["taken before", "new"]


async def test_topic_may_have_more_queues_than_a_query_has_parts() -> None:
    async with running_broker() as broker:
        await broker.registry.topics.put(TOPIC, 600, 600, PERM_READ | PERM_WRITE)
        contents = [str(queue) for queue in range(600)]
        await asyncio.gather(*(send(broker, body, queue=599 - int(body)) for body in contents))
        assert bodies(await receive(broker, 1_000)) == contents


# Filters


async def test_a_filter_skips_other_messages_for_the_whole_group() -> None:
    async with running_broker() as broker:
        for n, tag in enumerate(["A", "B", None, "C", "A"]):
            await send(broker, str(n), tag=tag, queue=0)
        assert bodies(await receive(broker, tags="A || C")) == ["0", "3", "4"]
        assert await receive(broker) == []
        assert bodies(await receive(broker, group="shipping", tags="*")) == list("01234")


async def test_tags_with_equal_hashes_are_distinguished() -> None:
    async with running_broker() as broker:
        await send(broker, "wanted", tag="Aa")
        await send(broker, "not", tag="BB")
        assert bodies(await receive(broker, tags="Aa")) == ["wanted"]


async def test_redelivery_rejected_by_a_filter_hides_no_message() -> None:
    async with running_broker() as broker:
        for _ in range(3):
            await send(broker, tag="A", queue=0)
        await send(broker, "mine", tag="B", queue=0)
        await receive(broker, invisible_us=1)
        await broker.mover.advance(1)
        assert bodies(await receive(broker, 2, tags="B")) == ["mine"]


async def test_a_filter_finds_one_message_among_very_many() -> None:
    async with running_broker(topic_queues=1) as broker:
        for _ in range(21):
            await broker.sender.send_batch([Message(TOPIC, b"no", {"TAGS": "B"}) for _ in range(1_000)])
        await send(broker, "needle", tag="A")
        assert bodies(await receive(broker, tags="A")) == ["needle"]


# Regressions found by an audit


@pytest.mark.interpreted
async def test_old_receipt_is_refused_once_the_message_is_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker)
        old = await receive(broker, invisible_us=1 * S)
        await broker.mover.advance(1 * S)
        refused = []

        async def commit_after_the_old_one_is_used(work: Work, **how: Any) -> Any:
            monkeypatch.undo()
            refused.extend((await acknowledge(broker, old)).failed)
            return await broker.store.writer.commit(work, **how)

        monkeypatch.setattr(broker.store.writer, "commit", commit_after_the_old_one_is_used)
        new = await receive(broker)
        assert len(refused) == 1
        assert (await acknowledge(broker, new)).failed == []


@pytest.mark.interpreted
async def test_receipt_does_not_expire_while_its_extension_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=1 * S)
        commit = broker.store.writer.commit

        async def commit_slowly(work: Work) -> Any:
            done = await commit(lambda batch: (work(batch), broker.expired_receipts.next_due_us())[1])
            assert done == taken.visible_us + 4 * S
            monkeypatch.undo()
            return await commit(lambda _: None)

        monkeypatch.setattr(broker.store.writer, "commit", commit_slowly)
        await broker.settler.extend(GROUP, [taken.handle], 5 * S)
        await broker.mover.advance(2 * S)
        assert await receive(broker) == []


async def test_clients_cannot_use_system_topics() -> None:
    async with running_broker(auto_create_groups=False) as broker:
        with pytest.raises(NoPermissionError):
            await receive(broker, topic="SCHEDULE_TOPIC_XXXX", group="TOOLS_CONSUMER")
        for group in ("nobody", ""):
            with pytest.raises(GroupNotFoundError):
                await send(broker, topic=f"%RETRY%{group}")
