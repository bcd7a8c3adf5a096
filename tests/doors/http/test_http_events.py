"""Events since the last reset, and messages that consumers left unacknowledged."""

import asyncio
import re

import pytest

from tests.doors.http.test_http_seen import acknowledge, give_back, polls
from tests.support.api import Api, Json, running_api

WALL_CLOCK = re.compile(r" (until|to) (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d")
"""Matches the part of a text that depends on the wall clock."""


async def story(api: Api, **query: Json) -> list[str]:
    """Return the events as text, each with the seconds since the first."""
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    events = (await api.ok("GET", f"/v1/events?{asked}"))["events"]
    begin_ms = events[0]["at_ms"] if events else 0
    return [f"{(one['at_ms'] - begin_ms) // 1000} {WALL_CLOCK.sub('', one['text'])}" for one in events]


DELAYS = [({"delay_level": 5}, "level 5"), ({"delay_ms": 60_000}, "directories")]
"""Delays of a minute, with the scheme that stores each."""


@pytest.mark.parametrize(("delay", "keeper"), DELAYS)
async def test_events_tell_of_delays_retries_and_dead_letters(api: Api, delay: Json, keeper: str) -> None:
    await api.send(body="order 7", keys=["7"], tag="new", **delay)
    await api.ok("POST", "/v1/clock/advance", {"by": "2m"})
    await give_back(api, await api.receive())
    await api.ok("POST", "/v1/clock/next")
    await give_back(api, await api.receive(), level=-1)
    label = "tag new keys 7 'order 7'"
    assert await story(api) == [
        f"0 sent to orders by http, parked ({keeper}) for 1m: {label}",
        "0 clock moved by 2m",
        f"60 delivered to orders: {label}",
        f"120 taken by billing: {label}",
        f"120 given back by billing, parked (level 3) for 10s: {label}",
        "120 clock moved by 10s",
        f"130 delivered to %RETRY%billing: {label}",
        f"130 taken by billing for the 2nd time: {label}",
        f"130 dead at billing: {label}",
    ]
    kinds = [one["kind"] for one in (await api.ok("GET", "/v1/events"))["events"]]
    assert kinds == [
        "parked",
        "moved",
        "delivered",
        "taken",
        "retried",
        "moved",
        "delivered",
        "taken",
        "dead",
    ]
    newest = await api.ok("GET", "/v1/events?max=2")
    assert ([one["kind"] for one in newest["events"]], newest["more"]) == (["taken", "dead"], True)
    assert (await api.ok("GET", "/v1/events"))["more"] is False
    await api.ok("POST", "/v1/reset")
    assert await story(api) == []


@pytest.mark.parametrize("delay", [delay for delay, _ in DELAYS])
async def test_newest_events_include_the_newest_of_many_pending_messages(api: Api, delay: Json) -> None:
    for body in "abc":
        await api.send(body=body, **delay)
    newest = await api.ok("GET", "/v1/events?max=2")
    assert ([one["text"][-3:] for one in newest["events"]], newest["more"]) == (["'b'", "'c'"], True)


@pytest.mark.parametrize(("delay", "keeper"), DELAYS)
async def test_events_tell_of_forced_and_cancelled_messages(api: Api, delay: Json, keeper: str) -> None:
    first = await api.send(body="a", **delay)
    await api.ok("POST", f"/v1/delayed/{first['message_id']}/deliver")
    second = await api.send(body="b", **delay)
    await api.ok("DELETE", f"/v1/delayed/{second['message_id']}")
    found = await story(api)
    assert found[:2] == [
        f"0 sent to orders by http, parked ({keeper}) for 1m: 'a'",
        "0 delivered to orders by hand, before it was due: 'a'",
    ]
    # Only level queues keep a record of the send; for other schemes, the event names the topic.
    where = "" if keeper == "level 5" else " while parked for orders"
    assert f"0 cancelled{where}: 'b'" in found


async def test_events_tell_of_each_take_and_the_acknowledgement(api: Api) -> None:
    await api.send(body="a")
    await api.receive(invisible_ms=10_000)
    await api.ok("POST", "/v1/clock/advance", {"by": "9s"})
    assert (await story(api))[1:] == ["0 taken by billing: 'a'", "0 clock moved by 9s"]
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    assert (await story(api))[-1] == "10 not acknowledged by billing in time: 'a'"
    await acknowledge(api, await api.receive())
    assert await story(api) == [
        "0 sent to orders by http: 'a'",
        "0 taken by billing: 'a'",
        "0 clock moved by 9s",
        "9 clock moved by 1s",
        "10 not acknowledged by billing in time: 'a'",
        "10 taken by billing for the 2nd time: 'a'",
        "10 acknowledged by billing: 'a'",
    ]


async def test_events_tell_of_half_messages(api: Api) -> None:
    halves = [
        await api.ok("POST", "/v1/topics/orders/transactions", {"body": body, "group": "shop"})
        for body in ("yes", "no")
    ]
    for half, decision in zip(halves, ("commit", "rollback"), strict=True):
        await api.ok("POST", f"/v1/transactions/{half['message_id']}/{decision}")
    assert sorted(await story(api)) == [
        "0 committed to orders: 'yes'",
        "0 prepared for orders by http: 'no'",
        "0 prepared for orders by http: 'yes'",
        "0 rolled back: 'no'",
    ]


async def test_events_include_consumers_by_offset(api: Api) -> None:
    broker = api.emulator.broker
    for body in ("a", "b", "c"):
        await api.send(body=body, queue_id=0)
    await broker.committed_offsets.report("audit", "orders", 0, 0)
    pulled = await broker.pull.pull("audit", "orders", 0, 0, 32)
    leaks = await api.ok("GET", "/v1/leaks")
    assert (leaks["count"], {one["state"] for one in leaks["leaks"]}) == (3, {"not taken"})
    await broker.pull.pull("audit", "orders", 0, 3, 32)
    leaks = await api.ok("GET", "/v1/leaks?group=audit&max=1")
    assert (leaks["count"], [one["state"] for one in leaks["leaks"]]) == (3, ["in flight"])
    await broker.retries.give_back("audit", pulled.messages[1].log_offset, -1)
    await broker.committed_offsets.report("audit", "orders", 0, 2, is_durable=False)
    assert (await api.ok("GET", "/v1/leaks"))["count"] == 1
    late = asyncio.create_task(api.ok("GET", "/v1/leaks?timeout_ms=30000"))
    await polls(api, 1)
    await broker.committed_offsets.report("audit", "orders", 0, 3, is_durable=False)
    assert (await late)["leaks"] == []
    told = await story(api)
    assert "0 taken by audit: 'b'" in told
    assert [one for one in told if "acknowledged" in one] == [
        "0 acknowledged by audit: 'a'",
        "0 acknowledged by audit: 'c'",
    ]
    found = await api.ok("POST", "/v1/topics/orders/wait", {"acknowledged": 2, "group": "audit"})
    assert [one["body"] for one in found["messages"]] == ["a", "c"]


async def test_leaks_are_named_by_group_and_state(api: Api) -> None:
    assert await api.ok("GET", "/v1/leaks") == {"count": 0, "leaks": []}
    for body in ("acknowledged", "in flight", "retried"):
        await api.send(body=body, queue_id=0)
    first, _, third = await api.receive()
    await acknowledge(api, [first])
    await give_back(api, [third])
    await api.send(body="not taken", queue_id=0)
    await api.send(topic="nobody", body="no consumer")
    await api.send(body="pending", delay_level=18)
    leaks = await api.ok("GET", "/v1/leaks")
    assert (leaks["count"], {one["message"]["body"]: one["state"] for one in leaks["leaks"]}) == (
        3,
        {"in flight": "in flight", "retried": "to be retried", "not taken": "not taken"},
    )
    in_flight = r"orders 'in flight': in flight at billing, until [0-9: -]+, in 30s$"
    assert re.match(in_flight, leaks["leaks"][0]["text"])
    await api.refused(404, "GET", "/v1/leaks?group=audit")
    await api.ok("POST", "/v1/clock/advance", {"by": "30s"})
    await acknowledge(api, await api.receive())
    assert (await api.ok("GET", "/v1/leaks"))["count"] == 0
    await api.send()
    await api.ok("POST", "/v1/reset")
    assert (await api.ok("GET", "/v1/leaks"))["count"] == 0


async def test_an_instant_of_another_day_has_its_date(api: Api) -> None:
    await api.ok("POST", "/v1/clock/to", {"instant_ms": 1_906_898_400_000})  # 2030-06-05T14:00:00Z
    await api.send(delay_ms=60_000)
    await api.send(delay_ms=2 * 86_400_000)
    told = [one["text"] for one in (await api.ok("GET", "/v1/events"))["events"]]
    assert told[-2].endswith(" until 14:01:00: 'hello'")
    assert told[-1].endswith(" until 2030-06-07 14:00:00: 'hello'")
    late = await api.ok("POST", "/v1/topics/orders/wait", {"delivered": 2, "timeout_ms": 0})
    assert "due in 1m (14:01:00)" in late["explanation"]
    assert "due in 2d (2030-06-07 14:00:00)" in late["explanation"]
    await api.receive(group="billing")
    await api.ok("POST", "/v1/clock/advance", {"by": "9h59m30s"})
    moves = [one["text"] for one in (await api.ok("GET", "/v1/events"))["events"] if one["kind"] == "moved"]
    assert moves[-1] == "clock moved by 9h59m30s to 23:59:30"
    await api.receive(group="billing", invisible_ms=60_000)
    [leak] = (await api.ok("GET", "/v1/leaks"))["leaks"]
    assert leak["text"].endswith("until 2030-06-06 00:00:30, in 1m")


async def test_a_story_continues_after_a_restart(tmp_path: object) -> None:
    async with running_api(data=str(tmp_path)) as api:
        await api.ok("POST", "/v1/clock/advance", {"by": "1h"})
        await api.ok("POST", "/v1/reset")
        await api.send(body="a")
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    async with running_api(data=str(tmp_path)) as api:
        assert await story(api) == ["0 sent to orders by http: 'a'", "0 clock moved by 1s"]


async def test_faults_that_struck_are_events_by_their_names(api: Api) -> None:
    await api.ok("POST", "/v1/faults", {"do": "deliver-late", "by": "31s", "name": "storm", "next": 1})
    busy = {"do": "refuse", "error": "FLUSH_DISK_TIMEOUT", "operation": "send", "name": "busy", "next": 1}
    await api.ok("POST", "/v1/faults", busy)
    sending = {"body": "a", "delay_level": 3, "message_id": "A53FE6E206FD1A204474F20000000000"}
    assert (await api.call("POST", "/v1/topics/orders/messages", sending)).status == 504
    await api.send(body="b", delay_level=3)
    await api.ok("POST", "/v1/faults", {"do": "disk-full", "name": "full"})
    assert (await api.call("POST", "/v1/topics/orders/messages", {"body": "c"})).status == 507
    await api.ok("POST", "/v1/clock/advance", {"by": "1m"})
    assert await story(api) == [
        "0 sent to orders by http, parked (level 3) for 10s: 'a'",
        "0 fault busy: refuse for send by http: 'a'",
        "0 sent to orders by http, parked (level 3) for 10s: 'b'",
        "0 fault full: disk-full for send by http",
        "0 clock moved by 1m",
        "10 fault storm: deliver-late for delivery: 'a'",
        "10 delivered to orders: 'b'",
        "41 delivered to orders: 'a'",
    ]
    faults = [
        (one["fault"], one["topic"])
        for one in (await api.ok("GET", "/v1/events"))["events"]
        if one["kind"] == "fault"
    ]
    assert faults == [("busy", "orders"), ("full", "orders"), ("storm", "orders")]
    await api.ok("POST", "/v1/reset")
    assert await story(api) == []


async def test_events_tell_what_happened_to_brokers() -> None:
    async with running_api(brokers=2, slaves=1, topic_queues=1) as api:
        at_b = "/v1/brokers/broker-b/"
        await api.send(body="lost", queue_id=1)
        await api.ok("POST", at_b + "crash", {"loses": "1s"})
        await api.send(body="kept", queue_id=0)
        await api.ok("POST", "/v1/clock/advance", {"by": "5s"})
        for change in ("start", "promote", "cut-off-from-clients", "reconnect", "read-only"):
            await api.ok("POST", at_b + change)
        await api.ok("POST", at_b + "shutdown")
        await api.ok("POST", at_b + "wipe")
        assert [line for line in await story(api) if "lost'" not in line] == [
            "0 broker-b crashed, lost 1 message of the last 1s",
            "0 sent to orders by http: 'kept'",
            "0 clock moved by 5s",
            "5 broker-b started",
            "5 broker-b promoted its slave, lost 0 messages",
            "5 broker-b cut off from clients",
            "5 broker-b reconnected",
            "5 broker-b read-only",
            "5 broker-b shut down",
            "5 broker-b wiped",
        ]
        changes = [one for one in (await api.ok("GET", "/v1/events"))["events"] if one["kind"] == "broker"]
        assert len(changes) == 8
        await api.ok("POST", "/v1/reset")
        assert await story(api) == []
