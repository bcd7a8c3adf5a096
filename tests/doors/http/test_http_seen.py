"""Querying sent messages, waiting for their outcomes, and unexpected messages."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, Json, running_api
from tests.support.patience import PATIENCE_S

LONG_MS = 30_000


async def sent(api: Api, topic: str = "orders", **like: Json) -> list[str]:
    """Return the bodies of sent messages that match."""
    found = await api.ok("POST", f"/v1/topics/{topic}/sent", like)
    assert found["count"] == len(found["messages"])
    return [one["body"] for one in found["messages"]]


async def wait(api: Api, topic: str = "orders", **what: Json) -> Json:
    return await api.ok("POST", f"/v1/topics/{topic}/wait", {"timeout_ms": 0, **what})


async def waiting(api: Api, **what: Json) -> asyncio.Task[Json]:
    """Start a wait, and return it once the broker waits."""
    before = api.emulator.broker.polls.count
    task = asyncio.create_task(wait(api, timeout_ms=LONG_MS, **what))
    await polls(api, before + 1)
    return task


async def polls(api: Api, count: int) -> None:
    """Wait until this many long polls are waiting."""
    async with asyncio.timeout(PATIENCE_S):
        while api.emulator.broker.polls.count != count:  # noqa: ASYNC110 - of the broker in this loop
            await asyncio.sleep(0)


async def acknowledge(api: Api, messages: list[Json], group: str = "billing") -> None:
    receipts = [one["receipt"] for one in messages]
    await api.ok("POST", f"/v1/groups/{group}/ack", {"receipts": receipts})


async def give_back(api: Api, messages: list[Json], level: int = 0, group: str = "billing") -> None:
    receipts = [one["receipt"] for one in messages]
    body = {"receipts": receipts, "delay_level": level}
    await api.ok("POST", f"/v1/groups/{group}/give-back", body)


ORDER = '{"order": {"id": 7, "lines": [{"sku": "a"}, {"sku": "b"}], "unit price": 1.5, "paid": true}}'


@pytest.mark.parametrize(
    "like",
    [
        {},
        {"tag": "paid"},
        {"key": "7"},
        {"properties": {"region": "eu"}},
        {"message_id": "A1"},
        {"delayed": False},
        {"delay_level": 0},
        {"body": ORDER},
        {
            "body": {
                "order": {"paid": True, "id": 7, "unit price": 1.5, "lines": [{"sku": "a"}, {"sku": "b"}]}
            }
        },
        {"json_path": {"$.order.id": 7, "$.order.lines[*].sku": "b", "$.order['unit price']": 1.5}},
        {"json_path": {"$.order.lines[-1]": {"sku": "b"}, "$.*.paid": True, '$["order"].lines[0].sku': "a"}},
        {"tag": "paid", "key": "eu-7", "json_path": {"$.order.id": 7}},
    ],
)
async def test_a_sent_message_is_found_by_the_fields_its_producer_set(api: Api, like: Json) -> None:
    fields: Json = {"tag": "paid", "keys": ["7", "eu-7"], "properties": {"region": "eu"}, "message_id": "A1"}
    await api.send(body=ORDER, **fields)
    assert await sent(api, **like) == [ORDER]
    assert await sent(api, "others", **like) == []


@pytest.mark.parametrize(
    "like",
    [
        {"tag": "PAID"},
        {"key": "eu"},
        {"properties": {"region": "eu", "shop": "1"}},
        {"message_id": "A"},
        {"delayed": True},
        {"delay_level": 1},
        {"body": "other"},
        {"body": {"order": 7}},
        {"json_path": {"$.order.paid": 1}},
        {"json_path": {"$.order.id": 8}},
        {"json_path": {"$.order.lines[2].sku": "b"}},
        {"json_path": {"$.order.id.below": 7}},
    ],
)
async def test_a_differing_message_is_not_found_and_its_difference_named(api: Api, like: Json) -> None:
    fields: Json = {"tag": "paid", "keys": ["7", "eu-7"], "properties": {"region": "eu"}, "message_id": "A1"}
    await api.send(body=ORDER, **fields)
    assert await sent(api, **like) == []
    found = await wait(api, sent=1, **like)
    (miss,) = found["near_misses"]
    assert (found["reached"], found["sent"], miss["message"]["message_id"]) == (False, 0, "A1")
    assert len(miss["differences"]) == 1
    assert miss["differences"][0] in found["explanation"]


async def test_bodies_may_be_bytes_and_compressed(api: Api) -> None:
    await api.ok("POST", "/v1/topics/orders/messages", {"body_base64": "/wA="})
    found = await api.ok("POST", "/v1/topics/orders/sent", {"body_base64": "/wA="})
    assert [(one["body"], one["body_base64"]) for one in found["messages"]] == [(None, "/wA=")]
    assert await sent(api, body="other") == []
    assert await sent(api, body={"order": 7}) == []


async def test_near_misses_are_sorted_and_name_their_differences(api: Api) -> None:
    await api.send(topic="refunds", body="far")
    await api.send(body="two", tag="paid", keys=["8"])
    await api.send(body="one", tag="paid", keys=["7"])
    await api.send(topic="order", body="topic", tag="refunded", keys=["7"])
    found = await wait(api, sent=1, tag="refunded", key="7")
    assert [(one["message"]["body"], one["differences"]) for one in found["near_misses"]] == [
        ("topic", ["topic: order, not orders"]),
        ("one", ["tag: 'paid', not 'refunded'"]),
        ("two", ["tag: 'paid', not 'refunded'", "key: '8', not '7'"]),
    ]
    assert found["explanation"].splitlines() == [
        "orders: 0 sent, wanted at least 1",
        "of messages with tag='refunded', key='7'",
        "nearest:",
        "  order tag refunded keys 7 'topic': delivered, no group has consumed the topic",
        "    topic: order, not orders",
        "  orders tag paid keys 7 'one': delivered, no group has consumed the topic",
        "    tag: 'paid', not 'refunded'",
        "  orders tag paid keys 8 'two': delivered, no group has consumed the topic",
        "    tag: 'paid', not 'refunded'; key: '8', not '7'",
    ]
    assert (await wait(api, topic="none", sent=1))["explanation"].endswith("no similar message was sent")


@pytest.mark.parametrize("delay", [{"delay_level": 16}, {"delay_ms": 1_800_000}])
async def test_delayed_message_counts_as_sent_then_as_delivered(api: Api, delay: Json) -> None:
    await api.send(body="now")
    await api.send(body="later", **delay)
    assert sorted(await sent(api)) == ["later", "now"]
    assert await sent(api, delayed=True) == ["later"]
    found = await wait(api, delivered=1, delayed=True)
    miss = found["near_misses"][0]
    assert (found["sent"], found["delivered"], miss["message"]["state"]) == (1, 0, "pending")
    assert "due in 30m" in miss["differences"][0]
    waiter = await waiting(api, delivered=1, body="later")
    await api.ok("POST", "/v1/clock/advance", {"by": "30m"})
    found = await waiter
    assert found["reached"]
    (message,) = found["messages"]
    assert message["due_ms"] == message["delivered_ms"] == message["sent_ms"] + 1_800_000
    assert (message["state"], message["delay_level"]) == ("delivered", delay.get("delay_level", 0))
    assert await sent(api, delayed=True) == ["later"]
    assert await sent(api, delayed=False) == ["now"]


@pytest.mark.parametrize("delay", [{"delay_level": 16}, {"delay_ms": 1_800_000}])
async def test_cancelled_message_counts_as_sent_until_a_reset(api: Api, delay: Json) -> None:
    message = await api.send(**delay)
    waiter = await waiting(api, delivered=1, sent=1)
    await api.ok("DELETE", f"/v1/delayed/{message['message_id']}")
    found = await api.ok("POST", "/v1/topics/orders/sent", {})
    assert [one["state"] for one in found["messages"]] == ["cancelled"]
    await api.send(**delay)
    await api.ok("POST", "/v1/reset", {"topic": "orders"})
    assert await sent(api) == []
    await api.ok("POST", "/v1/reset")
    assert (await waiter)["reached"] is False


@pytest.mark.parametrize("delay", [{"delay_level": 5}, {"delay_ms": 60_000}])
async def test_message_held_by_a_fault_counts_once(api: Api, delay: Json) -> None:
    await api.ok("POST", "/v1/faults", {"do": "deliver-late", "by": "30s", "topic": "orders"})
    await api.send(body="late", **delay)
    for moved, delivered in (("1s", 0), ("1m", 0), ("1m", 1)):
        await api.ok("POST", "/v1/clock/advance", {"by": moved})
        assert await sent(api, delayed=True) == ["late"]
        assert (await wait(api, delivered=1))["delivered"] == delivered


@pytest.mark.parametrize(
    ("delay", "told"),
    [({"delay_level": 5}, "delayed by level 5"), ({"delay_ms": 60_000}, "delayed")],
)
async def test_a_wait_names_the_fault_that_holds_a_due_message(api: Api, delay: Json, told: str) -> None:
    await api.ok("POST", "/v1/faults", {"do": "hold", "name": "jam", "topic": "orders"})
    due_ms = (await api.send(**delay))["due_ms"]
    assert f"{told}, due in 1m (" in (await wait(api, delivered=1))["explanation"]
    await api.ok("POST", "/v1/clock/advance", {"by": "61s"})
    due = datetime.fromtimestamp(due_ms / 1000, UTC)
    lines = (await wait(api, delivered=1))["explanation"].splitlines()
    assert re.fullmatch(rf"  orders 'hello': {told}, held by jam since (\S+ )?{due:%H:%M:%S}", lines[2])
    await api.ok("DELETE", "/v1/faults/jam")
    assert (await wait(api, delivered=1))["reached"]


async def test_a_wait_names_the_fault_that_holds_a_retry(api: Api) -> None:
    await api.ok("POST", "/v1/faults", {"do": "hold", "name": "jam", "topic": "%RETRY%billing"})
    await api.send()
    await give_back(api, await api.receive())
    assert ", in 10s" in (await wait(api, acknowledged=1, group="billing"))["explanation"]
    await api.ok("POST", "/v1/clock/advance", {"by": "61s"})
    found = await wait(api, acknowledged=1, group="billing")
    [told] = found["near_misses"][0]["differences"]
    assert re.fullmatch(r"to be retried at billing, held by jam since [0-9: -]+", told)


async def test_wait_ends_when_every_count_is_reached(api: Api) -> None:
    waiter = await waiting(api, sent=2, delivered=1, tag="paid")
    await api.send(tag="paid", delay_level=1)
    await api.send(tag="other")
    await api.send(tag="paid")
    found = await waiter
    assert (found["sent"], found["delivered"], found["reached"]) == (2, 1, True)


async def test_acknowledged_covers_the_retries_of_a_group(api: Api) -> None:
    waiter = await waiting(api, acknowledged=2, group="billing")
    for body in ("a", "b"):
        await api.send(body=body)
    for group in ("audit", "billing"):
        taken = await api.receive(group=group)
        if group == "audit":
            await acknowledge(api, taken, group)
    first, second = taken
    await acknowledge(api, [first])
    await give_back(api, [second])
    assert not waiter.done()
    found = await wait(api, acknowledged=2, group="billing")
    assert (found["acknowledged"], found["reached"]) == (1, False)
    told = found["near_misses"][0]["differences"][0]
    assert re.search("to be retried at billing, until [0-9: -]+, in 10s", told)
    await api.ok("POST", "/v1/clock/next")
    await acknowledge(api, await api.receive())
    found = await waiter
    assert (found["acknowledged"], found["reached"]) == (2, True)
    groups = {one["group"]: one["state"] for one in found["messages"][0]["groups"]}
    assert groups == {"audit": "acknowledged", "billing": "acknowledged"}


async def test_in_flight_and_untaken_messages_are_named(api: Api) -> None:
    await api.send(body="taken", queue_id=0)
    await api.receive()
    await api.send(body="new", queue_id=0)
    found = await wait(api, acknowledged=2, group="billing")
    assert [(one["message"]["body"], one["differences"]) for one in found["near_misses"]] == [
        ("new", ["not taken at billing"]),
        ("taken", [found["near_misses"][1]["differences"][0]]),
    ]
    assert re.search("in flight at billing, until [0-9: -]+, in 30s", found["explanation"])
    found = await wait(api, acknowledged=1, group="nobody")
    assert "not taken at nobody" in found["explanation"]


async def test_dead_letters_are_counted_for_the_topic_they_come_from(api: Api) -> None:
    await api.send(body="poison")
    waiter = await waiting(api, dead=1)
    await give_back(api, await api.receive(), level=-1)
    found = await waiter
    assert (found["dead"], found["messages"][0]["body"]) == (1, "poison")
    assert [one["state"] for one in found["messages"][0]["groups"]] == ["dead"]
    assert (await wait(api, dead=1, group="billing"))["reached"]
    assert not (await wait(api, dead=1, group="audit"))["reached"]
    assert await sent(api) == ["poison"]
    assert (await wait(api, topic="%DLQ%billing", delivered=1))["reached"]


STANDS = "the clock is manual and was not moved: advance it, or move it to the next due time"


async def test_a_delay_is_told_once_and_with_it_that_nobody_moved_the_clock(api: Api) -> None:
    await api.send(delay_level=16)
    found = await wait(api, delivered=1)
    due = datetime.fromtimestamp((await api.ok("GET", "/v1/clock"))["next_due_ms"] / 1000, UTC)
    lines = found["explanation"].splitlines()
    assert lines[0] == "orders: 0 delivered, wanted at least 1"
    assert lines[2].startswith("  orders 'hello': delayed by level 16, due in 30m (")
    assert lines[2].endswith(f"{due:%H:%M:%S})")
    assert lines[3:] == [STANDS]
    await api.ok("POST", "/v1/clock/advance", {"by": "29m59s"})
    assert STANDS not in (await wait(api, delivered=1))["explanation"]
    await api.ok("POST", "/v1/reset")
    await api.send(delay_ms=60_000)
    assert (await wait(api, delivered=1))["explanation"].endswith(STANDS)


async def test_a_clock_that_stands_is_not_named_where_it_makes_no_difference(api: Api) -> None:
    await api.send(tag="paid", delay_level=16)
    await api.send(tag="due")
    await api.receive()
    wants: list[Json] = [
        {"sent": 1, "tag": "refunded"},
        {"delivered": 2, "tag": "due"},
        {"delivered": 1, "tag": "refunded"},
        {"acknowledged": 1, "group": "billing", "tag": "due"},
    ]
    for wanted in wants:
        assert STANDS not in (await wait(api, **wanted))["explanation"]


async def test_a_retry_waits_for_a_clock_that_stands(api: Api) -> None:
    await api.send()
    [taken] = await api.receive()
    assert STANDS in (await wait(api, dead=1))["explanation"]  # it is in flight
    await give_back(api, [taken])
    wants: list[Json] = [{"dead": 1}, {"acknowledged": 1, "group": "billing"}]
    for wanted in wants:
        found = await wait(api, **wanted)
        assert len(re.findall("to be retried at billing, until [0-9: -]+, in 10s", found["explanation"])) == 1
        assert found["explanation"].endswith(STANDS)


@pytest.mark.parametrize("clock", ["real", "x2"])
async def test_a_running_clock_does_not_stand(clock: str) -> None:
    async with running_api(clock=clock) as api:
        await api.send(delay_level=16)
        assert "manual" not in (await wait(api, delivered=1))["explanation"]


async def test_exact_counts_and_zero(api: Api) -> None:
    assert (await wait(api, sent=0, exactly=True))["reached"]
    for body in ("a", "b"):
        await api.send(body=body)
    assert (await wait(api, sent=2, exactly=True))["reached"]
    found = await api.ok(
        "POST", "/v1/topics/orders/wait", {"sent": 1, "exactly": True, "timeout_ms": LONG_MS}
    )
    assert not found["reached"]
    assert found["explanation"].splitlines()[:2] == ["orders: 2 sent, wanted exactly 1", "found:"]


async def test_expected_messages_are_not_unexpected(api: Api) -> None:
    await api.send(body="a", tag="paid")
    await api.send(body="b")
    await api.send(topic="refunds", body="c", delay_ms=1_000)
    await wait(api, sent=1, tag="paid", expected=True)
    found = await api.ok("GET", "/v1/unexpected")
    assert [one["body"] for one in found["messages"]] in (["b", "c"], ["c", "b"])
    assert found["explanation"].startswith("sent, but expected by no assertion: 2\n")
    await api.ok("POST", "/v1/topics/orders/sent", {"expected": True})
    found = await api.ok("GET", "/v1/unexpected?topic=orders")
    assert (found["count"], found["messages"], found["explanation"]) == (0, [], "")
    await sent(api, "refunds", expected=True)
    await api.ok("POST", "/v1/clock/next")
    await give_back(api, await api.receive(), level=-1)
    assert (await api.ok("GET", "/v1/unexpected"))["count"] == 0
    await api.ok("POST", "/v1/reset")
    await api.send(body="again", tag="paid")
    assert (await api.ok("GET", "/v1/unexpected"))["count"] == 1


async def test_only_committed_half_messages_are_sent(api: Api) -> None:
    half = await api.ok("POST", "/v1/topics/orders/transactions", {"body": "half", "group": "shop"})
    other = await api.ok("POST", "/v1/topics/orders/transactions", {"body": "no", "group": "shop"})
    assert await sent(api) == []
    waiter = await waiting(api, delivered=1)
    await api.ok("POST", f"/v1/transactions/{other['message_id']}/rollback")
    await api.ok("POST", f"/v1/transactions/{half['message_id']}/commit")
    assert [one["body"] for one in (await waiter)["messages"]] == ["half"]


async def test_disconnected_clients_stop_waiting(api: Api) -> None:
    waiters = [await waiting(api, sent=1, key=str(number)) for number in range(20)]
    waiters[0].cancel()
    await polls(api, 19)
    for number in range(20):
        await api.send(keys=[str(number)])
    for number, waiter in enumerate(waiters[1:], 1):
        assert [one["keys"] for one in (await waiter)["messages"]] == [[str(number)]]
    assert api.emulator.broker.polls.count == 0


async def test_a_reset_ends_waits_and_receives(api: Api) -> None:
    waiter = await waiting(api, sent=1)
    receiver = asyncio.create_task(api.receive(wait_ms=LONG_MS))
    await polls(api, 2)
    await api.ok("POST", "/v1/reset")
    assert (await waiter)["reached"] is False
    assert await receiver == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sent": 0}, "sent"),
        ({"acknowledged": 1}, "group"),
        ({"sent": 1, "json_path": {"order.id": 1}}, "json_path"),
        ({"sent": 1, "json_path": {"$..id": 1}}, "json_path"),
        ({"sent": 1, "body": "a", "body_base64": "YQ=="}, "body_base64"),
        ({"sent": 1, "tags": "a"}, "tags"),
    ],
)
async def test_invalid_queries_are_refused(api: Api, fields: Any, field: str) -> None:
    assert (await api.refused(400, "POST", "/v1/topics/orders/wait", fields))["field"] == field


async def test_sent_messages_are_found_after_a_restart(tmp_path: Any) -> None:
    for count in (1, 2):
        async with running_api(data=str(tmp_path)) as api:
            await api.send(body="x", delay_ms=60_000)
            await api.send(body="x", delay_level=5)
            assert len(await sent(api, body="x", delayed=True)) == 2 * count
    async with running_api(data=str(tmp_path)) as api:
        await api.ok("POST", "/v1/clock/advance", {"by": "2m"})
        found = await wait(api, delivered=4, exactly=True)
        assert (found["reached"], found["sent"]) == (True, 4)


@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize("delay", [{"delay_level": 3}, {"delay_ms": 10_000}])
async def test_messages_sent_before_a_reset_are_not_seen_after_a_restart(
    tmp_path: Path, delay: Json, delete: bool
) -> None:
    async with running_api(data=str(tmp_path)) as api:
        await api.send(body="delivered", **delay)
        await api.ok("POST", "/v1/clock/advance", {"by": "10s"})
        await api.send(body="cancelled", **delay)
        if delete:
            await api.ok("DELETE", "/v1/topics/orders")
        else:
            await api.ok("POST", "/v1/reset", {"topic": "orders"})
    async with running_api(data=str(tmp_path)) as api:
        await api.ok("PUT", "/v1/topics/orders")
        assert await sent(api) == []
        await api.send(body="new", **delay)
        assert await sent(api) == ["new"]
        assert (await wait(api, sent=2))["sent"] == 1
