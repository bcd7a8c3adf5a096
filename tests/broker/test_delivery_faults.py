"""Injected delivery faults: late, out of order, held, throttled or repeated. No message is ever lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.schedule import held_deliveries
from tests.support.api import running_api
from tests.support.brokers import TOPIC, Refusing, S, bodies, rows, running_broker, send, visible
from tests.support.patience import PATIENCE_S

LEVEL = 1  # one second


async def add(broker: Broker, do: str, **rule: Any) -> str:
    return (await broker.faults.add_rule(FaultRule(do=do, **rule))).name  # type: ignore[arg-type]


async def send_in(broker: Broker, kind: str, body: str) -> None:
    """Send a message that is due in a second, by a level or by due time."""
    if kind == "level":
        await send(broker, body, level=LEVEL)
    else:
        await send(broker, body, TIMER_DELAY_MS="1000")


async def seen(broker: Broker) -> list[str]:
    """Return the bodies in the topic, in order of arrival."""
    found = sorted(await visible(broker, TOPIC), key=lambda message: message.log_offset)
    return bodies(found)


KINDS = pytest.mark.parametrize("kind", ["level", "due time"])


@KINDS
async def test_deliveries_are_late_and_in_order(kind: str) -> None:
    async with running_broker() as broker:
        await add(broker, "deliver-late", by="10s", next=2)
        for body in "abc":
            await send_in(broker, kind, body)
        assert (await broker.mover.advance(1 * S)).fired == 1
        assert await seen(broker) == ["c"]
        assert (broker.pending.count, broker.pending.next_due_us) == (
            2,
            broker.clock.now_us() + 10 * S,
        )
        assert bodies(p.message for p in await broker.pending.list()) == ["a", "b"]
        assert (await broker.mover.advance(10 * S - 1)).fired == 0
        assert (await broker.mover.advance(1)).fired == 2
        assert await seen(broker) == ["c", "a", "b"]
        assert broker.pending.count == 0
        [row] = await broker.store.database.rows(
            "SELECT count(*), max(delivered_us - due_us), min(delivered_us - due_us) FROM deliveries"
            " WHERE fault = 'fault-1'"
        )
        assert tuple(row) == (2, 10 * S, 10 * S)
        [row] = await broker.store.database.rows("SELECT count(*) FROM deliveries WHERE fault IS NULL")
        assert row[0] == 1
        assert broker.faults.get("fault-1").fired == 2
        assert broker.schemes.early == 0


@KINDS
async def test_deliveries_are_out_of_order_by_the_seed(kind: str) -> None:
    orders = []
    for seed in (1, 1, 2):
        async with running_broker() as broker:
            await add(broker, "deliver-shuffled", by="uniform(0, 10s)", seed=seed)
            for body in "abcdefgh":
                await send_in(broker, kind, body)
            await broker.mover.advance(20 * S)
            orders.append(await seen(broker))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list("abcdefgh") != orders[0]


@KINDS
async def test_a_held_level_is_silent_until_the_rule_ends(kind: str) -> None:
    async with running_broker() as broker:
        name = await add(broker, "hold", topic=TOPIC)
        await send_in(broker, kind, "a")
        await send(broker, "other", topic="others", level=LEVEL)
        await broker.mover.advance(3_600 * S)
        assert await seen(broker) == []
        assert len(await visible(broker, "others")) == 1
        assert broker.pending.count == 1
        await broker.faults.remove_rules(name)
        await broker.mover.advance(0)
        assert await seen(broker) == ["a"]


async def test_held_level_spares_the_others() -> None:
    async with running_broker() as broker:
        await add(broker, "hold", level=1, lasts="1h")
        await send(broker, "dead", level=1)
        await send(broker, "fine", level=2)
        await broker.mover.advance(60 * S)
        assert await seen(broker) == ["fine"]
        await broker.mover.advance(3_600 * S)
        assert await seen(broker) == ["fine", "dead"]


@KINDS
async def test_deliveries_are_throttled(kind: str) -> None:
    async with running_broker() as broker:
        await add(broker, "throttle", per_second=2)
        for body in "abcde":
            await send_in(broker, kind, body)
        counts = []
        for _ in range(4):
            await broker.mover.advance(1 * S)
            counts.append(len(await seen(broker)))
        assert counts == [1, 3, 5, 5]
        assert await seen(broker) == list("abcde")


@KINDS
async def test_a_refused_delivery_is_counted_and_throttled_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker() as broker:
        await add(broker, "throttle", per_second=1, every=2)
        for body in "abcdef":
            await send_in(broker, kind, body)
        for _ in range(3):
            async with Refusing(broker, monkeypatch):
                with pytest.raises(StoreUnavailableError):
                    await broker.mover.advance(1 * S)
        counts = []
        for _ in range(4):
            await broker.mover.advance(1 * S)
            counts.append(await seen(broker))
        assert counts == [[*"abce"], [*"abced"], [*"abcedf"], [*"abcedf"]]


@KINDS
async def test_messages_are_delivered_again(kind: str) -> None:
    async with running_broker() as broker:
        await add(broker, "deliver-again", times=2, by="1s", next=1)
        for body in "ab":
            await send_in(broker, kind, body)
        await broker.mover.advance(1 * S)
        assert await seen(broker) == ["a", "b"]
        assert broker.pending.count == 0
        await broker.mover.advance(5 * S)
        assert await seen(broker) == ["a", "b", "a", "a"]
        repeats = await broker.store.database.rows(
            "SELECT delivered_us - due_us, fault FROM deliveries WHERE fault IS NOT NULL ORDER BY 1"
        )
        assert [tuple(row) for row in repeats] == [(1 * S, "fault-1"), (2 * S, "fault-1")]


async def test_repeats_end_with_their_rule() -> None:
    async with running_broker() as broker:
        name = await add(broker, "deliver-again", times=3, by="1s")
        await send_in(broker, "level", "a")
        await broker.mover.advance(2 * S)
        await broker.faults.remove_rules(name)
        await broker.mover.advance(60 * S)
        assert await seen(broker) == ["a", "a"]


async def test_repeats_end_when_their_topic_is_reset() -> None:
    async with running_broker() as broker:
        await add(broker, "deliver-again", times=3, by="10s")
        await send_in(broker, "level", "a")
        await broker.mover.advance(1 * S)
        await broker.reset.topic(TOPIC)
        await broker.mover.advance(60 * S)
        assert await seen(broker) == []


@KINDS
async def test_restart_keeps_held_messages_and_their_due_times(kind: str, tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await add(broker, "deliver-late", by="1h")
        await send_in(broker, kind, "a")
        await send_in(broker, kind, "b")
        await broker.mover.advance(1 * S)
        assert await seen(broker) == []
    async with running_broker(tmp_path) as broker:
        assert broker.pending.count == 2
        await broker.mover.advance(3_599 * S)
        assert await seen(broker) == []
        await broker.mover.advance(1 * S)
        assert await seen(broker) == ["a", "b"]
    assert [row["fault"] for row in rows(tmp_path, "SELECT fault FROM deliveries")] == ["fault-1"] * 2
    assert rows(tmp_path, "SELECT * FROM held_deliveries") == []


@KINDS
async def test_held_messages_are_cancelled_forced_and_cleared(kind: str) -> None:
    async with running_broker() as broker:
        await add(broker, "hold")
        for body in "abc":
            await send_in(broker, kind, body)
        await broker.mover.advance(1 * S)
        a, b, _ = [pending.message for pending in await broker.pending.list()]
        await broker.schemes.cancel([a])
        await broker.schemes.force(b)
        assert await seen(broker) == ["b"]
        assert broker.pending.count == 1
        assert (await broker.histories.of(a.unique_key)).state == "cancelled"
        await broker.reset.all()
        assert broker.pending.count == 0
        await broker.faults.clear()
        await broker.mover.advance(60 * S)
        assert await seen(broker) == []


async def test_the_history_names_the_fault_of_a_late_delivery() -> None:
    async with running_api() as api:
        await api.ok(
            "POST", "/v1/faults", {"do": "deliver-late", "by": "31s", "name": "storm", "level": LEVEL}
        )
        sent = await api.send(delay_level=LEVEL)
        await api.ok("POST", "/v1/clock/advance", {"by": "10s"})
        life = await api.ok("GET", f"/v1/messages/{sent['message_id']}")
        assert (life["state"], life["deliveries"]) == ("pending", [])
        assert [(each["fault"], each["door"]) for each in life["faults"]] == [("storm", "")]
        assert (await api.ok("GET", "/v1/faults/storm"))["held"] == 1
        assert life["life"][-1]["text"] == "fault storm: deliver-late for delivery"
        await api.ok("POST", "/v1/clock/advance", {"by": "22s"})
        life = await api.ok("GET", f"/v1/messages/{sent['message_id']}")
        assert life["deliveries"][0]["fault"] == "storm"
        delivered = next(one for one in life["life"] if one["kind"] == "delivered")
        assert (delivered["late_us"], delivered["fault"]) == (31 * S, "storm")


async def test_a_message_released_while_the_next_release_is_read_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await broker.faults.add_rule(FaultRule(do="hold", topic="a", name="hold-a"))
        await broker.faults.add_rule(FaultRule(do="deliver-late", topic="b", by="10s", name="late-b"))
        for topic in "ab":
            await send(broker, topic, topic=topic, level=1)
        await broker.mover.advance(2 * S)
        database, has_read, go = broker.store.database, asyncio.Event(), asyncio.Event()
        read = database.rows

        async def slow_rows(sql: str, *parameters: Any) -> list[Any]:
            found = await read(sql, *parameters)
            if sql == held_deliveries._FIRST:
                has_read.set()
                await go.wait()
            return found

        monkeypatch.setattr(database, "rows", slow_rows)
        moving = asyncio.create_task(broker.mover.advance(10 * S))
        async with asyncio.timeout(PATIENCE_S):
            await has_read.wait()
        monkeypatch.setattr(database, "rows", read)
        await broker.faults.remove_rules("hold-a")
        go.set()
        await moving
        assert broker.held.pending == 0
        assert bodies(await visible(broker, "a")) == ["a"]


async def test_an_unread_next_release_fails_no_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await broker.faults.add_rule(FaultRule(do="deliver-late", by="10s"))
        await send(broker, "late", level=1)
        await broker.mover.advance(2 * S)
        database, unread = broker.store.database, [True]
        read = database.rows

        async def rows(sql: str, *parameters: Any, **how: Any) -> list[Any]:
            if sql == held_deliveries._FIRST and unread:
                unread.pop()
                raise StoreUnavailableError("no")
            return await read(sql, *parameters, **how)

        monkeypatch.setattr(database, "rows", rows)
        assert (await broker.mover.advance(10 * S)).fired == 1
        assert (unread, await seen(broker), broker.held.next_due_us()) == ([], ["late"], None)


async def test_a_rule_whose_client_has_disconnected_is_removed() -> None:
    async with running_broker() as broker:
        told = []

        async def changed() -> None:
            told.append([fault.name for fault in broker.faults])

        await broker.faults.add_rule(FaultRule(do="hold", name="x"))
        broker.faults.once_changed.append(changed)
        removing = asyncio.create_task(broker.faults.remove_rules("x"))
        await asyncio.sleep(0)
        removing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await removing
        async with asyncio.timeout(PATIENCE_S):
            while not told:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)
        assert told == [[]]


async def test_a_rule_whose_client_has_disconnected_is_added() -> None:
    async with running_broker() as broker:
        adding = asyncio.create_task(broker.faults.add_rule(FaultRule(do="hold", name="x")))
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        await broker.store.writer.synced()
        assert [fault.name for fault in await broker.faults.remove_rules("x")] == ["x"]
