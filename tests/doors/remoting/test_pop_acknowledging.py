"""Acknowledging popped messages and changing their invisible times, in the formats of clients.

``tests/broker/test_pops.py`` and ``test_ordered_pops.py`` test the effects on the messages.
"""

import base64
import json

import pytest

from mocketmq.clock import US_PER_MS
from tests.doors.remoting.consuming import committed
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
    pop_of,
)
from tests.doors.remoting.producing import sent
from tests.support.brokers import Refusing, S
from tests.support.remoting import running_remoting


async def test_redelivered_message_has_its_first_pop_time() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, b"a", properties={"1ST_POP_TIME": "5", "k": "v"})
        [first] = await pop(remoting.client)
        assert first.properties["1ST_POP_TIME"] == "5"  # as upstream
        await change(remoting.client, first.handle, 0)
        [again] = await pop(remoting.client)
        assert int(again.properties["1ST_POP_TIME"]) >= int(first.handle.split(" ")[1])
        assert again.properties["k"] == "v"


async def test_acknowledgement_moves_the_committed_offset() -> None:
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


async def test_batch_of_acknowledgements() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, *map(str, range(20)))
        await fill(remoting, "other", queue=1)
        found = await pop(remoting.client)
        kept = found.pop(7)
        assert await ack_all(remoting.client, [one.handle for one in found]) == 0
        assert await ack_all(remoting.client, [one.handle for one in found]) == 208
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert [one.body for one in await pop(remoting.client)] == [kept.body]


async def test_batch_of_acknowledgements_as_a_list_of_bytes() -> None:
    """The Rust client writes the bits in this format, and RocketMQ accepts it."""
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


async def test_past_handle_answers_no_message() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [first] = await pop(remoting.client)
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        assert await ack(remoting.client, first.handle) == 208  # expired
        [second] = await pop(remoting.client)
        assert await ack(remoting.client, first.handle) == 208  # popped again
        assert await change(remoting.client, first.handle, 0) == ""
        third = await change(remoting.client, second.handle, 5_000)
        assert await ack(remoting.client, second.handle) == 208
        assert await ack_all(remoting.client, [first.handle, second.handle]) == 208
        assert await ack(remoting.client, third) == 0


async def test_pop_refused_by_the_store_answers_service_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        await pop(remoting.client)  # creates the group
        await fill(remoting, "b")
        async with Refusing(remoting.broker, monkeypatch):
            answer = await remoting.client.call(POP, pop_of())
            assert (answer.code, answer.remark) == (14, "no")


# Ordered pops


async def test_ordered_pop_answers_with_counts() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a", "b", "c")
        answer = await remoting.client.ok(POP, pop_of(order=True, maxMsgNums=2))
        assert (answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ("999", "0 0 0")
        first, _ = messages(answer)
        assert await pop(remoting.client, order=True) == []
        await ack(remoting.client, first.handle)
        await remoting.broker.mover.advance(INVISIBLE_MS * US_PER_MS)
        answer = await remoting.client.ok(POP, pop_of(order=True, maxMsgNums=1))
        [second] = messages(answer)
        assert (second.body, second.times, second.record.reconsume_times) == ("b", 1, 0)
        assert "1ST_POP_TIME" not in second.properties
        assert answer.ext["orderCountInfo"] == "0 qo0%1 1;0 0 1"
        assert answer.ext["restNum"] == "1"


async def test_changed_time_in_order_keeps_the_handle() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [one] = await pop(remoting.client, order=True)
        changed = await change(remoting.client, one.handle, 5_000)
        pop_ms, invisible_ms = map(int, changed.split(" ")[1:3])
        assert pop_ms == int(one.handle.split(" ")[1])
        assert invisible_ms >= 5_000
        assert await ack(remoting.client, one.handle) == 0


async def test_repeated_attempt_gets_the_same_messages() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [lost] = await pop(remoting.client, order=True, attemptId="one")
        assert await pop(remoting.client, order=True, attemptId="two") == []
        assert (await remoting.client.ok(NOTIFICATION, pop_of(order=True))).ext["hasMsg"] == "false"
        notified = await remoting.client.ok(NOTIFICATION, pop_of(order=True, attemptId="one"))
        assert notified.ext["hasMsg"] == "true"
        [again] = await pop(remoting.client, order=True, attemptId="one")
        assert (again.body, again.times) == ("a", 0)
        assert [await ack(remoting.client, one.handle) for one in (lost, again)] == [208, 0]
