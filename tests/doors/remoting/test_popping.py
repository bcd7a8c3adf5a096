"""Popping by 200050 and related codes: results, long polls, and other consumers of the group."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.message import Message
from mocketmq.remoting.listening.requests_in_progress import ConnectionLimits
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.consuming import RETRY, committed, join, pull, subscription
from tests.doors.remoting.consuming import bodies as pulled
from tests.doors.remoting.popping import (
    INVISIBLE_MS,
    MANDATORY,
    NOTIFICATION,
    PEEK,
    POLLING_INFO,
    POP,
    ack,
    ack_all,
    change,
    fill,
    messages,
    pop,
    pop_later,
    pop_of,
    waited,
)
from tests.doors.remoting.producing import parted
from tests.support.brokers import GROUP, TOPIC, S, bodies, receive, rows, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import running_remoting

TOO_LATE = "the broker[127.0.0.1] pop message is timeout too much"

# Results


async def test_pop_returns_messages_of_all_queues_with_their_offsets() -> None:
    async with running_remoting() as remoting:
        for queue in (0, 1, 2):
            await fill(remoting, f"{queue}a", f"{queue}b", queue=queue)
        before_ms = wall_us() // US_PER_MS
        answer = await remoting.client.ok(POP, pop_of(maxMsgNums=5))
        found = messages(answer)
        assert [one.body for one in found] == ["0a", "0b", "1a", "1b", "2a"]
        assert answer.ext["startOffsetInfo"] == "0 0 0;0 1 0;0 2 0"
        assert answer.ext["msgOffsetInfo"] == "0 0 0,1;0 1 0,1;0 2 0"
        assert (answer.ext["restNum"], answer.ext["reviveQid"]) == ("1", "0")
        assert answer.ext["invisibleTime"] == str(INVISIBLE_MS)
        assert before_ms <= int(answer.ext["popTime"]) <= wall_us() // US_PER_MS
        assert all(one.times == 0 and "1ST_POP_TIME" not in one.properties for one in found)


async def test_pop_of_one_queue_includes_retries() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "zero")
        await fill(remoting, "one", queue=1)
        assert [one.body for one in await pop(remoting.client, queueId=1)] == ["one"]
        assert await pop(remoting.client, queueId=1) == []
        assert [one.body for one in await pop(remoting.client)] == ["zero"]
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [one.body for one in await pop(remoting.client, queueId=0)] == ["zero", "one"]


async def test_popped_message_is_invisible_until_its_time_ends() -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await fill(remoting, "a", "b")
        await pop(remoting.client)
        assert await pop(other) == []
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS - 1)
        assert await pop(other) == []
        await remoting.broker.mover.advance(1)
        again = await pop(other)
        assert [(one.body, one.times) for one in again] == [("a", 1), ("b", 1)]
        assert all(
            abs(int(one.properties["1ST_POP_TIME"]) - wall_us() // US_PER_MS) < 120_000 for one in again
        )


async def test_tags_are_filtered_and_other_messages_skipped() -> None:
    async with running_remoting() as remoting:
        for tag in ("red", "blue", "red", None):
            await send(remoting.broker, str(tag), queue=0, tag=tag)
        answer = await remoting.client.ok(POP, pop_of(exp="red || green"))
        assert [(one.body, one.record.queue_offset) for one in messages(answer)] == [("red", 0), ("red", 2)]
        assert answer.ext["msgOffsetInfo"] == "0 0 0,2"
        assert await pop(remoting.client) == []


async def test_pop_filters_by_sql() -> None:
    async with running_remoting() as remoting:
        for n in range(4):
            await send(remoting.broker, str(n), queue=0, n=str(n))
        found = await pop(remoting.client, expType="SQL92", exp="n > 1")
        assert [one.body for one in found] == ["2", "3"]


async def test_an_answer_fits_into_a_frame() -> None:
    async with running_remoting() as remoting:
        size = MAX_RECEIVED_BYTES // 2
        for _ in range(5):
            await remoting.broker.sender.send(Message(TOPIC, bytes(size), queue_id=0))
        sizes = []
        while found := await pop(remoting.client):
            sizes.append(len(found))
        assert sizes == [2, 2, 1]


async def test_a_group_begins_at_the_first_message_or_at_the_last() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "old", "older")
        await remoting.broker.reset.topic(TOPIC)  # moves first_offset, so no message is young
        await fill(remoting, "a", "b", "c")
        [queue, *_] = remoting.broker.registry.topics.get(TOPIC).queues
        queue.min_offset += 1  # as after retention
        assert [one.body for one in await pop(remoting.client, consumerGroup="min")] == ["b", "c"]
        assert [one.body for one in await pop(remoting.client, consumerGroup="max", initMode=1)] == ["c"]


async def test_group_starts_a_young_queue_at_its_first_message() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        assert [one.body for one in await pop(remoting.client, initMode=1)] == ["a", "b"]


async def test_starting_at_the_end_happens_once(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, "a", "b")
        [queue, *_] = remoting.broker.registry.topics.get(TOPIC).queues
        queue.min_offset += 1
        assert await pop(remoting.client, initMode=1, exp="nothing") == []
        assert rows(tmp_path, "SELECT next_offset FROM progress") == [{"next_offset": 1}]


# Waiting


async def test_a_pop_waits_for_a_message() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        answer = pop_later(remoting.client)
        await waited(remoting)
        await fill(remoting, "b", queue=3)
        assert [one.body for one in messages(await answer)] == ["b"]
        await waited(remoting, 0)


async def test_a_pop_waits_for_messages_to_become_visible_again() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        answer = pop_later(remoting.client)
        await waited(remoting)
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [(one.body, one.times) for one in messages(await answer)] == [("a", 1)]


@pytest.mark.parametrize(("wait_ms", "waited_ms"), [(0, 0), (30, 0), (60_000, 59_900)])
async def test_an_empty_pop_answers_when_its_poll_time_ends(wait_ms: int, waited_ms: int) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        while True:
            born_ms = wall_us() // US_PER_MS - waited_ms
            answer = await remoting.client.call(POP, pop_of(wait_ms, bornTime=born_ms))
            if answer.remark != TOO_LATE:  # the answer if a pop takes half a second to arrive
                break
        assert (answer.code, answer.remark, set(answer.ext)) == (210, "NO_MESSAGE_IN_QUEUE", MANDATORY)


async def test_pops_and_notifications_wait_no_longer_than_the_setting_allows() -> None:
    async with running_remoting(max_long_poll_us=100 * US_PER_MS) as remoting, asyncio.timeout(PATIENCE_S):
        await fill(remoting, "a")
        await pop(remoting.client)
        for born_ms in (0, wall_us() // US_PER_MS):
            answer = await remoting.client.call(POP, pop_of(60_000, bornTime=born_ms))
            assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
        told = await remoting.client.ok(NOTIFICATION, pop_of(60_000))
        assert told.ext == {"hasMsg": "false", "pollingFull": "false"}


async def test_waiting_pops_do_not_block_the_connection() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        answers = [pop_later(remoting.client) for _ in range(ConnectionLimits().running + 1)]
        await waited(remoting, len(answers))
        await fill(remoting, "b")
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert [one.body for answer in done for one in messages(answer.result())] == ["b"]


async def test_timed_out_pop_takes_no_messages() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        born_ms = wall_us() // US_PER_MS - 15_501
        answer = await remoting.client.call(POP, pop_of(15_000, bornTime=born_ms))
        assert (answer.code, answer.remark) == (210, TOO_LATE)
        assert [one.body for one in await pop(remoting.client, bornTime=0)] == ["a"]


async def test_client_disconnecting_while_waiting_pops_nothing() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        async with remoting.another() as other:
            pop_later(other)
            await waited(remoting)
        await waited(remoting, 0)
        await fill(remoting, "b")
        assert [(one.body, one.times) for one in await pop(remoting.client)] == [("b", 0)]


async def test_pop_beyond_the_wait_limit_is_answered_at_once() -> None:
    async with running_remoting() as remoting:
        remoting.server.hub.limits = ConnectionLimits(waiting_bytes_together=0)
        await fill(remoting, "a")
        assert [one.body for one in messages(await remoting.client.call(POP, pop_of(20_000)))] == ["a"]
        answer = await remoting.client.call(POP, pop_of(20_000))
        assert (answer.code, answer.remark, set(answer.ext)) == (209, "NO_MESSAGE_IN_QUEUE", MANDATORY)
        assert (await remoting.client.call(POP, pop_of())).code == 210
        told = [await remoting.client.ok(NOTIFICATION, pop_of(wait_ms)) for wait_ms in (20_000, 0)]
        assert [one.ext["pollingFull"] for one in told] == ["true", "false"]
        await fill(remoting, "b")
        told = [await remoting.client.ok(NOTIFICATION, pop_of(20_000))]
        assert told[0].ext == {"hasMsg": "true", "pollingFull": "false"}


async def test_a_notification_reports_messages_without_taking_them() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)
        answer = await remoting.client.ok(NOTIFICATION, pop_of())
        assert answer.ext == {"hasMsg": "false", "pollingFull": "false"}
        later = remoting.client.ask(NOTIFICATION, pop_of(20_000))
        await remoting.client.ok(POLLING_INFO, pop_of())
        assert not later.done()
        await fill(remoting, "b", queue=1)
        assert (await later).ext["hasMsg"] == "true"
        assert (await remoting.client.ok(NOTIFICATION, pop_of(queueId=0))).ext["hasMsg"] == "false"
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert (await remoting.client.ok(NOTIFICATION, pop_of(queueId=0))).ext["hasMsg"] == "true"
        assert [one.body for one in await pop(remoting.client)] == ["a", "b"]


async def test_filtered_messages_behind_a_full_answer_stay_as_upstream() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, "a", queue=0, tag="A")
        await send(remoting.broker, "b", queue=0, tag="B")
        answer = await remoting.client.ok(POP, pop_of(exp="A", maxMsgNums=1))
        assert [one.body for one in messages(answer)] == ["a"]
        assert answer.ext["restNum"] == "1"
        assert [one.body for one in await pop(remoting.client)] == ["b"]


async def test_peeking_leaves_no_trace() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        [first] = await pop(remoting.client, maxMsgNums=1)
        assert pulled(await remoting.client.ok(PEEK, pop_of())) == ["b"]
        await change(remoting.client, first.handle, 0)
        answer = await remoting.client.ok(PEEK, pop_of())
        assert (pulled(answer), set(answer.ext)) == (["a", "b"], MANDATORY)
        assert answer.ext["restNum"] == "2"
        peeked, _ = decode_records(answer.body)
        assert (peeked.reconsume_times, "1ST_POP_TIME" in parted(peeked.properties)) == (1, True)
        assert [(one.body, one.times) for one in await pop(remoting.client)] == [("a", 1), ("b", 0)]
        answer = await remoting.client.call(PEEK, pop_of())
        assert (answer.code, set(answer.ext)) == (19, MANDATORY)


# With other consumers of the group


async def test_retries_of_a_group_are_popped_with_its_topic() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        for taken in await receive(remoting.broker):
            await remoting.broker.settler.give_back(GROUP, [taken.handle], 1)
        await remoting.broker.mover.advance(1 * S)
        retries = await pop(remoting.client)
        assert sorted(one.body for one in retries) == ["a", "b"]
        assert [one.times for one in retries] == [1, 1]
        assert {one.handle.split(" ")[4] for one in retries} == {"1"}
        assert await ack(remoting.client, retries[0].handle) == 0
        changed = await change(remoting.client, retries[1].handle, 1_000)
        assert await ack_all(remoting.client, [changed]) == 0
        assert await committed(remoting.client, topic=RETRY) == 2


async def test_retries_of_other_topics_are_not_popped() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, "other", topic="other")
        await fill(remoting, "a")
        [taken] = await receive(remoting.broker, topic="other")
        await remoting.broker.settler.give_back(GROUP, [taken.handle], 1)
        await remoting.broker.mover.advance(1 * S)
        assert pulled(await remoting.client.ok(PEEK, pop_of())) == ["a"]
        assert [one.body for one in await pop(remoting.client)] == ["a"]
        answer = await remoting.client.ok(POP, pop_of(topic="other"))
        assert [one.body for one in messages(answer, "other")] == ["other"]


async def test_pulled_retries_are_not_popped() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [taken] = await receive(remoting.broker)
        await remoting.broker.settler.give_back(GROUP, [taken.handle], 1)
        await remoting.broker.mover.advance(1 * S)
        await join(remoting.client, subscriptionDataSet=[subscription(), subscription(RETRY)])
        assert await pop(remoting.client) == []
        assert pulled(await pull(remoting.client, topic=RETRY)) == ["a"]


async def test_group_may_switch_between_pulling_and_popping() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c", "d")
        assert pulled(await pull(remoting.client, maxMsgNums=1)) == ["a"]
        await remoting.broker.committed_offsets.report(GROUP, TOPIC, 0, 1)
        first, second = await pop(remoting.client, maxMsgNums=2)
        assert (first.body, second.body) == ("b", "c")
        await ack(remoting.client, first.handle)
        assert await committed(remoting.client) == 2  # where a pulling member starts
        assert pulled(await pull(remoting.client, 2)) == ["c", "d"]
        await remoting.broker.committed_offsets.report(GROUP, TOPIC, 0, 4)
        assert await ack(remoting.client, second.handle) == 208
        await remoting.broker.mover.advance(3600 * S)
        assert await pop(remoting.client) == []


async def test_receipts_and_pops_exclude_each_other() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        [popped] = await pop(remoting.client, maxMsgNums=1)
        [received] = await receive(remoting.broker)
        assert bodies([received]) == ["b"]
        handle = popped.handle.rpartition(" ")[0] + " 1"
        assert await ack(remoting.client, handle) == 208


async def test_group_reset_returns_popped_messages() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [one] = await pop(remoting.client)
        await ack(remoting.client, one.handle)
        await remoting.broker.committed_offsets.commit(GROUP, TOPIC, 0, 0)
        [again] = await pop(remoting.client)
        assert again.body == "a"
        assert await ack(remoting.client, again.handle) == 0


async def test_the_ledger_records_the_group_that_popped_and_acknowledged(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await send(remoting.broker, "later", level=1)
        await remoting.broker.mover.advance(1 * S)
        [one] = await pop(remoting.client)
        group = remoting.broker.consuming_groups.get(GROUP)
        assert sum(place.lag for place in group.queues.values()) == 1
        await remoting.broker.mover.advance(2 * S)
        await ack(remoting.client, one.handle)
        assert sum(place.lag for place in group.queues.values()) == 0
        [row] = rows(
            tmp_path,
            "SELECT pulled_by, pulled_us - delivered_us AS p, acked_us - pulled_us AS a FROM deliveries",
        )
        assert row == {"pulled_by": GROUP, "p": 0, "a": 2 * S}


async def test_route_of_a_pop_retry_topic_creates_no_group() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client, consumerGroup="a_b")
        for name, code in ((f"a_b_{TOPIC}", 17), ("a_b", 0), (f"new_{TOPIC}", 0)):
            assert (await remoting.client.call(105, {"topic": f"%RETRY%{name}"})).code == code
        assert {group.name for group in remoting.broker.registry.groups} == {"a_b", f"new_{TOPIC}"}
