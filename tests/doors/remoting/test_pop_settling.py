"""Popped messages are acknowledged, kept longer, and come back, also in order."""

import base64
import json
from pathlib import Path

import pytest

from mocketmq.clock import US_PER_MS
from tests.doors.remoting.consuming import DLQ, committed
from tests.doors.remoting.popping import (
    BATCH_ACK,
    INVISIBLE_MS,
    NOTIFICATION,
    POP,
    ack,
    ack_all,
    batch_of,
    change,
    fill,
    messages,
    pop,
    pop_later,
    pop_of,
    waited,
)
from tests.doors.remoting.producing import sent
from tests.support.brokers import GROUP, TOPIC, Refusing, S, receive
from tests.support.remoting import running_remoting

# Settling


async def test_a_retry_says_when_it_was_popped_first_whatever_its_sender_says() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, b"a", properties={"1ST_POP_TIME": "5", "k": "v"})
        [first] = await pop(remoting.client)
        assert first.properties["1ST_POP_TIME"] == "5"  # as upstream
        await change(remoting.client, first.handle, 0)
        [again] = await pop(remoting.client)
        assert int(again.properties["1ST_POP_TIME"]) >= int(first.handle.split(" ")[1])
        assert again.properties["k"] == "v"


async def test_what_is_acknowledged_is_done_with() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        first, second = await pop(remoting.client)
        assert await ack(remoting.client, second.handle) == 0
        assert await committed(remoting.client) == 0
        assert await ack(remoting.client, first.handle) == 0
        assert await committed(remoting.client) == 2
        await remoting.broker.mover.advance(3600 * S)
        assert await pop(remoting.client) == []
        assert await ack(remoting.client, first.handle) == 208


async def test_many_are_acknowledged_at_once() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, *map(str, range(20)))
        await fill(remoting, "other", queue=1)
        found = await pop(remoting.client)
        kept = found.pop(7)
        assert await ack_all(remoting.client, [one.handle for one in found]) == 0
        assert await ack_all(remoting.client, [one.handle for one in found]) == 208
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [one.body for one in await pop(remoting.client)] == [kept.body]


async def test_many_are_acknowledged_by_a_list_of_bytes() -> None:
    """The Rust client writes the bits so, and RocketMQ reads them."""
    async with running_remoting() as remoting:
        await fill(remoting, *map(str, range(20)))
        found = await pop(remoting.client)
        kept = found.pop(7)
        body = json.loads(batch_of([one.handle for one in found]))
        for one in body["acks"]:
            one["b"] = list(base64.b64decode(one["b"]))
        assert (await remoting.client.call(BATCH_ACK, body=json.dumps(body).encode())).code == 0
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [one.body for one in await pop(remoting.client)] == [kept.body]


async def test_an_old_handle_is_good_for_nothing() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [first] = await pop(remoting.client)
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert await ack(remoting.client, first.handle) == 208  # expired
        [second] = await pop(remoting.client)
        assert await ack(remoting.client, first.handle) == 208  # taken again
        assert await change(remoting.client, first.handle, 0) == ""
        third = await change(remoting.client, second.handle, 5_000)
        assert await ack(remoting.client, second.handle) == 208
        assert await ack_all(remoting.client, [first.handle, second.handle]) == 208
        assert await ack(remoting.client, third) == 0


async def test_the_invisible_time_is_counted_anew() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        first, second = await pop(remoting.client)
        await remoting.broker.mover.advance(50 * S)
        assert await change(remoting.client, first.handle, 120_000)
        assert await change(remoting.client, second.handle, 0)
        [back] = await pop(remoting.client)
        assert (back.body, back.times) == ("b", 1)
        await ack(remoting.client, back.handle)
        await remoting.broker.mover.advance(120 * S - 1)
        assert await pop(remoting.client) == []
        await remoting.broker.mover.advance(1)
        assert [one.body for one in await pop(remoting.client)] == ["a"]


async def test_handles_are_good_after_a_restart(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, "a", "b", "c")
        first, second, third = await pop(remoting.client)
        second_handle = await change(remoting.client, second.handle, INVISIBLE_MS)
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await pop(remoting.client) == []
        assert await ack(remoting.client, second.handle) == 208
        assert [await ack(remoting.client, one) for one in (first.handle, second_handle)] == [0, 0]
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [(one.body, one.times) for one in await pop(remoting.client)] == [(third.body, 1)]


async def test_what_is_popped_too_often_is_popped_again_and_no_dead_letter() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 2, 1)
        await fill(remoting, "a")
        for times in range(6):
            [one] = await pop(remoting.client)
            assert one.times == times
            await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert remoting.broker.registry.topics.find(DLQ) is None
        assert [one.message.body for one in await receive(remoting.broker)] == [b"a"]
        await remoting.broker.mover.advance(30 * S)
        assert remoting.broker.registry.topics.find(DLQ) is not None  # by the rules of receipts


# In order


async def test_in_order_a_queue_waits_for_all_that_was_given_out_of_it() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c")
        answer = await remoting.client.ok(POP, pop_of(order=True, maxMsgNums=2))
        assert (answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ("999", "0 0 0")
        first, second = messages(answer)
        assert await pop(remoting.client, order=True) == []
        assert await ack(remoting.client, second.handle) == 0
        assert await pop(remoting.client, order=True) == []
        later = pop_later(remoting.client, order=True)
        await waited(remoting)
        assert await ack(remoting.client, first.handle) == 0
        assert [one.body for one in messages(await later)] == ["c"]


async def test_in_order_what_ran_out_comes_first_and_says_how_often_it_was_consumed() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c")
        first, _ = await pop(remoting.client, order=True, maxMsgNums=2)
        await ack(remoting.client, first.handle)
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        answer = await remoting.client.ok(POP, pop_of(order=True, maxMsgNums=1))
        [second] = messages(answer)
        assert (second.body, second.times, second.record.reconsume_times) == ("b", 1, 0)
        assert "1ST_POP_TIME" not in second.properties
        assert answer.ext["orderCountInfo"] == "0 qo0%1 1;0 0 1"
        assert answer.ext["restNum"] == "1"


async def test_in_order_what_is_new_comes_behind_what_ran_out() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c", "d")
        first, second, _ = await pop(remoting.client, order=True, maxMsgNums=3)
        await ack(remoting.client, second.handle)
        await change(remoting.client, first.handle, 0)
        assert await pop(remoting.client, order=True) == []  # "c" is not done with
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        answer = await remoting.client.ok(POP, pop_of(order=True, maxMsgNums=1))
        assert [one.body for one in messages(answer)] == ["a"]
        assert answer.ext["restNum"] == "3"
        assert await pop(remoting.client, order=True) == []
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        again = await pop(remoting.client, order=True)
        assert [(one.body, one.times) for one in again] == [("a", 2), ("b", 1), ("c", 1), ("d", 0)]


async def test_in_order_what_was_acknowledged_behind_another_comes_again_with_it() -> None:
    """As in PopOrderlyIT of 5.3.3."""
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c", "d")
        first, second, third = await pop(remoting.client, order=True, maxMsgNums=3)
        assert await ack(remoting.client, first.handle) == 0
        await change(remoting.client, second.handle, 3_000)
        later = pop_later(remoting.client, order=True, maxMsgNums=3)
        await waited(remoting)
        assert await ack(remoting.client, third.handle) == 0
        assert await ack(remoting.client, third.handle) == 208
        await remoting.broker.mover.advance(3 * S)
        again = messages(await later)
        assert [(one.body, one.times) for one in again] == [("b", 1), ("c", 1), ("d", 0)]
        for one in reversed(again):
            assert await ack(remoting.client, one.handle) == 0
        [queue, *_] = remoting.broker.registry.topics.get(TOPIC).queues
        group_queue = remoting.broker.consuming_groups.get(GROUP).queues[queue]
        assert (group_queue.committed_offset, group_queue.open) == (4, {})


async def test_in_order_what_was_acknowledged_behind_another_is_done_with_once_that_is() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c", "d")
        first, second, third = await pop(remoting.client, order=True, maxMsgNums=3)
        for one in (second, third, first):
            assert await ack(remoting.client, one.handle) == 0
        assert [one.body for one in await pop(remoting.client, order=True)] == ["d"]


async def test_in_order_one_of_many_decides_whether_those_behind_it_come_again() -> None:
    """Popped alone, it takes the acknowledgements of the others with it, as upstream."""
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c")
        first, *others = await pop(remoting.client, order=True)
        for one in others:
            await ack(remoting.client, one.handle)
        await change(remoting.client, first.handle, 0)
        [again] = await pop(remoting.client, order=True, maxMsgNums=1)
        assert await ack(remoting.client, again.handle) == 0
        found = await pop(remoting.client, order=True)
        assert [(one.body, one.times) for one in found] == [("b", 1), ("c", 1)]


async def test_in_order_an_acknowledgement_behind_another_survives_a_restart(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting, "a", "b", "c")
        _, second, _ = await pop(remoting.client, order=True)
        assert await ack(remoting.client, second.handle) == 0
    async with running_remoting(data=str(tmp_path)) as remoting:
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [one.body for one in await pop(remoting.client, order=True)] == ["a", "c"]


async def test_in_order_nothing_is_lost_by_a_pop_that_was_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        first, second = await pop(remoting.client, order=True)
        await ack(remoting.client, second.handle)
        await change(remoting.client, first.handle, 0)
        async with Refusing(remoting.broker, monkeypatch):
            answer = await remoting.client.call(POP, pop_of(order=True))
            assert (answer.code, answer.remark) == (14, "no")
        again = await pop(remoting.client, order=True)
        assert [(one.body, one.times) for one in again] == [("a", 1), ("b", 1)]


async def test_in_order_a_changed_time_leaves_the_handle_as_it_is() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [one] = await pop(remoting.client, order=True)
        changed = await change(remoting.client, one.handle, 5_000)
        pop_ms, invisible_ms = map(int, changed.split(" ")[1:3])
        assert pop_ms == int(one.handle.split(" ")[1])
        assert invisible_ms >= 5_000
        assert await ack(remoting.client, one.handle) == 0


async def test_an_attempt_that_is_made_again_gets_the_same_messages() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b")
        [lost] = await pop(remoting.client, order=True, maxMsgNums=1, attemptId="one")
        assert await pop(remoting.client, order=True, attemptId="two") == []
        assert (await remoting.client.ok(NOTIFICATION, pop_of(order=True))).ext["hasMsg"] == "false"
        notified = await remoting.client.ok(NOTIFICATION, pop_of(order=True, attemptId="one"))
        assert notified.ext["hasMsg"] == "true"
        [again] = await pop(remoting.client, order=True, maxMsgNums=1, attemptId="one")
        assert (again.body, again.times) == ("a", 0)
        assert await ack(remoting.client, lost.handle) == 208
        assert await ack(remoting.client, again.handle) == 0
        assert [one.body for one in await pop(remoting.client, order=True, attemptId="one")] == ["b"]
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        [again] = await pop(remoting.client, order=True, attemptId="one")
        assert (again.body, again.times) == ("b", 0)  # however late it is made again
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        [again] = await pop(remoting.client, order=True, attemptId="two")
        assert (again.body, again.times) == ("b", 1)


async def test_an_attempt_that_is_made_again_gets_what_it_acknowledged_behind_another() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c")
        _, second = await pop(remoting.client, order=True, maxMsgNums=2, attemptId="one")
        assert await ack(remoting.client, second.handle) == 0
        again = await pop(remoting.client, order=True, attemptId="one")
        assert [(one.body, one.times) for one in again] == [("a", 0), ("b", 0), ("c", 0)]
