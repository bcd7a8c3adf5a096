"""Consuming by receipt and by offset: who is given what, when it comes back, and where it ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.pull import PullStatus
from mocketmq.broker.consuming.receipts import Taken
from mocketmq.broker.filters.filter import TagFilter
from mocketmq.broker.registry.topics import PERM_READ, PERM_WRITE
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    NoPermissionError,
    QueueNotFoundError,
    StoreBusyError,
)
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY, ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC, decode_properties
from mocketmq.store import writer
from mocketmq.store.writer import Work

from tests.support.brokers import (
    DELAYS_US,
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

DLQ = f"%DLQ%{GROUP}"
RETRY = f"%RETRY%{GROUP}"


# Receive


async def test_messages_of_all_queues_come_in_the_order_in_which_they_were_sent() -> None:
    async with running_broker() as broker:
        for n in range(20):
            await send(broker, str(n))
        assert len({message.queue_key for message in await visible(broker)}) > 1
        taken = [*await receive(broker, 7), *await receive(broker, 100)]
        assert bodies(taken) == [str(n) for n in range(20)]


async def test_what_is_taken_is_invisible_to_its_group_and_no_other() -> None:
    async with running_broker() as broker:
        await send(broker)
        assert len(await receive(broker)) == 1
        assert await receive(broker) == []
        assert len(await receive(broker, group="shipping")) == 1


async def test_what_is_not_settled_in_time_comes_back_first() -> None:
    async with running_broker() as broker:
        await send(broker, "slow")
        [first] = await receive(broker, invisible_us=10 * S)
        assert first.visible_us == broker.clock.now_us() + 10 * S
        await send(broker, "later")
        await broker.advance_clock(10 * S - 1)
        assert bodies(await receive(broker, invisible_us=60 * S)) == ["later"]
        await send(broker, "last")
        await broker.advance_clock(1)
        again = await receive(broker)
        assert [(one.message.body, one.times) for one in again] == [(b"slow", 2), (b"last", 1)]
        [(_, error)] = (await acknowledge(broker, [first])).failed
        assert "expired" in str(error)
        assert (await acknowledge(broker, again)).failed == []


async def test_what_is_acknowledged_never_comes_back() -> None:
    async with running_broker() as broker:
        await send(broker)
        taken = await receive(broker)
        assert (await acknowledge(broker, taken)).done == [taken[0].handle]
        await broker.advance_clock(3600 * S)
        assert await receive(broker) == []
        [(_, error)] = (await acknowledge(broker, taken)).failed
        assert "settled before" in str(error)


async def test_good_handles_are_settled_beside_bad_ones() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        settled = await broker.receipts.acknowledge(
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
            await broker.receipts.extend(GROUP, [theirs.handle], 1),
        ):
            assert (settled.done, len(settled.failed)) == ([], 1)
        assert (await acknowledge(broker, [theirs], "shipping")).done
        with pytest.raises(GroupNotFoundError):
            await acknowledge(broker, [mine], "nobody")


async def test_a_receipt_is_extended_from_now_on() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=10 * S)
        await broker.advance_clock(9 * S)
        assert (await broker.receipts.extend(GROUP, [taken.handle], 5 * S)).done
        await broker.advance_clock(5 * S - 1)
        assert await receive(broker) == []
        await broker.advance_clock(1)
        assert len(await receive(broker)) == 1
        assert (await broker.receipts.extend(GROUP, [taken.handle], 5 * S)).failed


async def test_extending_by_nothing_gives_the_message_free_at_once() -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker)
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        await broker.receipts.extend(GROUP, [taken.handle], 0)
        assert [one.times for one in await receiver] == [2]


# Long polls


async def test_a_waiting_receiver_is_given_what_is_sent() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        await send(broker, "elsewhere", topic="other")
        assert not receiver.done()
        await send(broker, "here")
        assert bodies(await receiver) == ["here"]
        assert broker.polls.count == 0


async def test_a_waiting_receiver_is_given_what_is_sent_to_a_queue_that_is_new() -> None:
    async with running_broker() as broker:
        await broker.topics.put(TOPIC, 1, 1, PERM_READ | PERM_WRITE)
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        async with asyncio.timeout(10):
            while not broker.polls.count:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await broker.topics.put(TOPIC, 2, 2, PERM_READ | PERM_WRITE)
            await send(broker, queue=1)
            assert bodies(await receiver) == ["hello"]


async def test_one_message_goes_to_one_of_many_waiting_receivers() -> None:
    async with running_broker() as broker:
        receivers = [asyncio.create_task(receive(broker, 1, wait_s=20)) for _ in range(5)]
        for n in range(5):
            await send(broker, str(n))
        found = [bodies(taken) for taken in await asyncio.gather(*receivers)]
        assert sorted(found) == [[str(n)] for n in range(5)]


async def test_waiting_ends_when_its_time_is_up() -> None:
    async with running_broker() as broker:
        assert await receive(broker, wait_s=0.01) == []


async def test_a_receiver_that_goes_away_while_it_waits_consumes_nothing() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        await send(broker, topic="other")
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        await send(broker)
        assert [one.times for one in await receive(broker)] == [1]


async def test_a_receiver_that_goes_away_while_its_take_is_written_gives_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker, level=1)
        await broker.advance_clock(1 * S)
        await broker.groups.put(GROUP, 16, 1)
        commit, writing = broker.writer.commit, asyncio.Event()

        async def watched(work: Work) -> object:
            writing.set()
            return await commit(work)

        monkeypatch.setattr(broker.writer, "commit", watched)
        receiver = asyncio.create_task(receive(broker))
        await writing.wait()
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        [taken] = await receive(broker, wait_s=20)
        assert taken.times == 1
        assert (await acknowledge(broker, [taken])).done


async def test_released_messages_are_visible_at_once_and_do_not_count() -> None:
    async with running_broker() as broker:
        await send(broker)
        taken = await receive(broker)
        await broker.receipts.release(GROUP, taken)
        assert [one.times for one in await receive(broker, wait_s=20)] == [1]


async def test_a_receiver_that_was_refused_for_now_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await send(broker, "taken before")
        await receive(broker, invisible_us=1)
        await broker.advance_clock(1)
        await send(broker, "new")
        with monkeypatch.context() as patched:
            patched.setattr(writer, "MAX_WAITING", 0)
            with pytest.raises(StoreBusyError):
                await receive(broker)
        assert bodies(await receive(broker)) == ["taken before", "new"]


async def test_a_topic_may_have_more_queues_than_a_query_has_parts() -> None:
    async with running_broker() as broker:
        await broker.topics.put(TOPIC, 600, 600, PERM_READ | PERM_WRITE)
        contents = [str(queue) for queue in range(600)]
        await asyncio.gather(*(send(broker, body, queue=599 - int(body)) for body in contents))
        assert bodies(await receive(broker, 1_000)) == contents


# Filters


async def test_a_filter_passes_over_what_it_does_not_want_for_the_whole_group() -> None:
    async with running_broker() as broker:
        for n, tag in enumerate(["A", "B", None, "C", "A"]):
            await send(broker, str(n), tag=tag, queue=0)
        assert bodies(await receive(broker, tags="A || C")) == ["0", "3", "4"]
        assert await receive(broker) == []
        assert bodies(await receive(broker, group="shipping", tags="*")) == list("01234")


async def test_two_tags_with_one_hash_are_two_tags() -> None:
    async with running_broker() as broker:
        await send(broker, "wanted", tag="Aa")
        await send(broker, "not", tag="BB")
        assert bodies(await receive(broker, tags="Aa")) == ["wanted"]


async def test_what_comes_back_to_another_filter_hides_nothing_from_it() -> None:
    async with running_broker() as broker:
        for _ in range(3):
            await send(broker, tag="A", queue=0)
        await send(broker, "mine", tag="B", queue=0)
        await receive(broker, invisible_us=1)
        await broker.advance_clock(1)
        assert bodies(await receive(broker, 2, tags="B")) == ["mine"]


async def test_a_filter_finds_one_message_among_very_many() -> None:
    async with running_broker(topic_queues=1) as broker:
        for _ in range(21):
            await broker.send_batch([Message(TOPIC, b"no", {"TAGS": "B"}) for _ in range(1_000)])
        await send(broker, "needle", tag="A")
        assert bodies(await receive(broker, tags="A")) == ["needle"]


# Retries and dead letters


async def take_one(broker: Broker, **how: Any) -> Taken:
    [taken] = await receive(broker, **how)
    return taken


async def test_sixteen_retries_from_level_3_to_18_and_then_a_dead_letter() -> None:
    async with running_broker() as broker:
        original = (await send(broker, tag="A", KEYS="k")).stored
        for times in range(16):
            taken = await take_one(broker)
            assert (taken.message.reconsume_times, taken.topic) == (times, TOPIC)
            assert (await give_back(broker, [taken])).done == [taken.handle]
            move = await broker.move_clock_to_next()
            assert (move.fired, move.now_us - move.from_us) == (1, DELAYS_US[2 + times])
        last = await take_one(broker)
        properties = decode_properties(last.message.properties)
        assert {
            DELAY: "18",
            REAL_TOPIC: RETRY,
            RETRY_TOPIC: TOPIC,
            ORIGIN_MESSAGE_ID: f"7F00000100002A9F{original.commit_offset:016X}",
            "TAGS": "A",
            "KEYS": "k",
            "WAIT": "false",
            "UNIQ_KEY": original.unique_key,
        }.items() <= properties.items()
        assert (last.message.born_us, last.message.body) == (original.born_us, original.body)
        await give_back(broker, [last])
        assert broker.pending.count == 0
        [dead] = await visible(broker, DLQ)
        assert (dead.reconsume_times, decode_properties(dead.properties)[DELAY]) == (17, "0")
        assert (await take_one(broker, topic=DLQ, group="mourners")).message == dead


async def test_a_message_that_is_never_settled_ends_as_a_dead_letter_too() -> None:
    async with running_broker() as broker:
        await send(broker)
        for times in range(1, 18):
            taken = await take_one(broker, invisible_us=10 * S)
            assert taken.times == times
            await broker.advance_clock(10 * S)
        assert await receive(broker) == []
        assert bodies(await visible(broker, DLQ)) == ["hello"]


async def test_giving_back_and_running_out_count_together() -> None:
    async with running_broker() as broker:
        await broker.groups.put(GROUP, 2, 1)
        await send(broker)
        await give_back(broker, await receive(broker), 1)
        await broker.advance_clock(1 * S)
        for _ in range(2):
            assert len(await receive(broker, invisible_us=10 * S)) == 1
            await broker.advance_clock(10 * S)
        assert bodies(await visible(broker, DLQ)) == ["hello"]


@pytest.mark.parametrize(("level", "delay_us"), [(1, DELAYS_US[0]), (5, DELAYS_US[4]), (99, DELAYS_US[17])])
async def test_a_consumer_may_choose_the_level_of_the_retry(level: int, delay_us: int) -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker), level)
        move = await broker.move_clock_to_next()
        assert move.now_us - move.from_us == delay_us


async def test_a_consumer_may_give_a_message_up_at_once() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker), -1)
        assert (broker.pending.count, bodies(await visible(broker, DLQ))) == (0, ["hello"])


async def test_a_retry_is_for_its_group_alone() -> None:
    async with running_broker() as broker:
        await send(broker)
        await acknowledge(broker, await receive(broker, group="shipping"), "shipping")
        await give_back(broker, await receive(broker))
        await broker.move_clock_to_next()
        assert await receive(broker, group="shipping") == []
        assert len(await receive(broker)) == 1


async def test_a_retry_reaches_its_receiver_whatever_the_filter() -> None:
    async with running_broker() as broker:
        await send(broker, tag="A")
        await give_back(broker, await receive(broker, tags="A"))
        await broker.move_clock_to_next()
        assert len(await receive(broker, tags="A")) == 1


async def test_the_retry_of_another_topic_is_left_for_its_own_receiver(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        await broker.move_clock_to_next()
        assert [one.times for one in await receiver] == [1]
        await give_back(broker, await receiver)
        await broker.move_clock_to_next()
        assert await receive(broker, topic="other") == []
    async with running_broker(tmp_path) as broker:
        assert await receive(broker, topic="other") == []
        assert [(one.topic, one.times) for one in await receive(broker, wait_s=20)] == [(TOPIC, 1)]


async def test_what_was_left_wakes_the_receiver_it_was_left_for() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.move_clock_to_next()
        receiver = asyncio.create_task(receive(broker, wait_s=20))
        assert await receive(broker, topic="other") == []
        assert len(await receiver) == 1


# Restarts


async def test_receipts_acknowledgements_and_progress_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(4):
            await send(broker, str(n), queue=n % 2)
        acked, kept, late = await receive(broker, 3, invisible_us=30 * S)
        await acknowledge(broker, [acked])
        await broker.receipts.extend(GROUP, [late.handle], 5 * S)
    async with running_broker(tmp_path) as broker:
        assert bodies(await receive(broker)) == ["3"]
        assert (await acknowledge(broker, [acked])).failed
        await broker.advance_clock(5 * S)
        assert [(one.message.body, one.times) for one in await receive(broker)] == [(b"2", 2)]
        assert (await acknowledge(broker, [kept])).done == [kept.handle]
    async with running_broker(tmp_path) as broker:
        await broker.advance_clock(3600 * S)
        assert sorted(bodies(await receive(broker))) == ["2", "3"]


async def test_attempts_are_counted_across_restarts(tmp_path: Path) -> None:
    for times in range(1, 4):
        async with running_broker(tmp_path) as broker:
            if times == 1:
                await broker.groups.put(GROUP, 2, 1)
                await send(broker)
            assert [one.times for one in await receive(broker, invisible_us=1, wait_s=20)] == [times]
            await broker.advance_clock(1)
    async with running_broker(tmp_path) as broker:
        assert bodies(await visible(broker, DLQ)) == ["hello"]


# By offset


async def test_pulling_waits_reads_and_moves_nothing() -> None:
    async with running_broker() as broker:
        await broker.topics.ensure(TOPIC, 4)
        waiting = asyncio.create_task(broker.pull.pull(GROUP, TOPIC, 0, 0, 10, wait_s=20))
        await send(broker, "elsewhere", topic="other")
        await send(broker, "0", queue=0)
        await send(broker, "1", queue=0)
        assert bodies((await waiting).messages)[:1] == ["0"]
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 1, 10)
        assert (pulled.status, bodies(pulled.messages)) == (PullStatus.FOUND, ["1"])
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (2, 0, 2)
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) is None


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (1, PullStatus.OFFSET_TOO_SMALL, 2),
        (2, PullStatus.FOUND, 3),
        (3, PullStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, PullStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
async def test_a_pull_outside_the_queue_says_where_to_go(
    offset: int, status: PullStatus, next_offset: int
) -> None:
    async with running_broker() as broker:
        for _ in range(2):
            await send(broker, queue=0)
        await broker.reset.topic(TOPIC)
        await send(broker, queue=0)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, offset, 10)
        assert (pulled.status, pulled.next_offset) == (status, next_offset)
        empty = await broker.pull.pull(GROUP, TOPIC, 1, 0, 10)
        assert (empty.status, empty.next_offset) == (PullStatus.NO_MESSAGE_IN_QUEUE, 0)


async def test_a_pull_with_a_filter_goes_past_what_it_does_not_want() -> None:
    async with running_broker() as broker:
        for tag in "ABA":
            await send(broker, tag, tag=tag, queue=0)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 0, 10, tag_filter=TagFilter.parse("C"))
        assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 3)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 0, 10, tag_filter=TagFilter.parse("A"))
        assert bodies(pulled.messages) == ["A", "A"]


async def test_both_ways_of_consuming_share_their_offsets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(6):
            await send(broker, str(n), queue=0)
        taken = await receive(broker, 3)
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) == 0
        await acknowledge(broker, [taken[0], taken[2]])
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) == 1
        await broker.pull.commit_offset(GROUP, TOPIC, 0, 5)
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) == 5
        assert (await acknowledge(broker, [taken[1]])).failed
        assert bodies(await receive(broker)) == ["5"]
    async with running_broker(tmp_path) as broker:
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) == 5
        await broker.advance_clock(3600 * S)
        assert bodies(await receive(broker)) == ["5"]


async def test_going_back_begins_again_from_there_and_is_not_forgotten(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(3):
            await send(broker, str(n), queue=0)
        await acknowledge(broker, await receive(broker))
        await broker.pull.commit_offset(GROUP, TOPIC, 0, 1)
        assert bodies(await receive(broker, invisible_us=10 * S)) == ["1", "2"]
    async with running_broker(tmp_path) as broker:
        assert broker.pull.committed_offset(GROUP, TOPIC, 0) == 1
        await broker.advance_clock(10 * S)
        assert bodies(await receive(broker)) == ["1", "2"]


@pytest.mark.parametrize("offset", [-1, 2])
async def test_only_offsets_of_the_queue_can_be_committed(offset: int) -> None:
    async with running_broker() as broker:
        await send(broker, queue=0)
        with pytest.raises(InvalidArgumentError, match="0 to 1"):
            await broker.pull.commit_offset(GROUP, TOPIC, 0, offset)
        with pytest.raises(QueueNotFoundError, match="orders has 0 to 3"):
            await broker.pull.commit_offset(GROUP, TOPIC, 4, 0)


async def test_groups_are_made_on_first_use_unless_that_is_off() -> None:
    async with running_broker(auto_create_groups=False) as broker:
        await send(broker)
        with pytest.raises(GroupNotFoundError):
            await receive(broker)
        await broker.groups.put(GROUP, 16, 1)
        assert len(await receive(broker)) == 1


async def test_lag_counts_what_a_group_has_not_finished() -> None:
    async with running_broker() as broker:
        for _ in range(5):
            await send(broker, queue=0)
        taken = await receive(broker, 3)
        [place] = [p for p in broker.groups.get(GROUP).queues.values() if p.queue.queue_id == 0]
        assert place.lag == 5
        await acknowledge(broker, taken[:2])
        assert place.lag == 3


# What an audit found


async def test_the_retry_topic_can_be_received_from_itself() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.advance_clock(10 * S)
        assert len(await receive(broker, topic=RETRY, invisible_us=5 * S)) == 1
        await broker.advance_clock(5 * S)
        assert len(await receive(broker, topic=RETRY)) == 1


async def test_a_message_full_of_properties_can_be_retried_and_given_up() -> None:
    async with running_broker() as broker:
        await broker.groups.put(GROUP, 1, 1)
        await send(broker, filler="x" * 32_600)
        assert (await give_back(broker, await receive(broker))).failed == []
        await broker.advance_clock(10 * S)
        assert len(await receive(broker, invisible_us=1 * S)) == 1
        await send(broker, "delayed", level=1)
        assert (await broker.advance_clock(1 * S)).fired == 1
        assert len(await visible(broker, DLQ)) == 1


async def test_an_old_receipt_is_refused_while_the_message_is_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker)
        old = await receive(broker, invisible_us=1 * S)
        await broker.advance_clock(1 * S)
        refused = []

        async def commit_after_the_old_one_is_used(work: Work) -> Any:
            monkeypatch.undo()
            refused.extend((await acknowledge(broker, old)).failed)
            return await broker.writer.commit(work)

        monkeypatch.setattr(broker.writer, "commit", commit_after_the_old_one_is_used)
        new = await receive(broker)
        assert len(refused) == 1
        assert (await acknowledge(broker, new)).failed == []


async def test_a_receipt_does_not_run_out_while_its_extension_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker)
        [taken] = await receive(broker, invisible_us=1 * S)
        commit = broker.writer.commit

        async def commit_slowly(work: Work) -> Any:
            done = await commit(lambda batch: (work(batch), broker.receipts.next_due_us())[1])
            assert done == taken.visible_us + 4 * S
            monkeypatch.undo()
            return await commit(lambda _: None)

        monkeypatch.setattr(broker.writer, "commit", commit_slowly)
        await broker.receipts.extend(GROUP, [taken.handle], 5 * S)
        await broker.advance_clock(2 * S)
        assert await receive(broker) == []


async def test_a_group_can_be_given_more_retry_queues() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.groups.put(GROUP, 16, 5)
        await send(broker)
        await give_back(broker, await receive(broker))
        assert broker.topics.get(RETRY).read_queues == 5


async def test_what_no_client_may_do_with_the_brokers_own_topics() -> None:
    async with running_broker(auto_create_groups=False) as broker:
        with pytest.raises(NoPermissionError):
            await receive(broker, topic="SCHEDULE_TOPIC_XXXX", group="TOOLS_CONSUMER")
        for group in ("nobody", ""):
            with pytest.raises(GroupNotFoundError):
                await send(broker, topic=f"%RETRY%{group}")
