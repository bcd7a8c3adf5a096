"""Messages sent over HTTP with a delivery instant or with any delay."""

from typing import Any

import pytest

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.duration import LONGEST_US
from tests.support.api import Api, running_api

MESSAGES = "/v1/topics/orders/messages"
START = "__STARTDELIVERTIME"
HOUR_MS = 3_600_000
WINDOW_MS = 40 * 24 * HOUR_MS
PATIENCE_MS = 120_000
"""Tolerance for times: far more than a request takes, far less than the delays of these tests."""


def wall_ms() -> int:
    return wall_us() // US_PER_MS


async def now_ms(api: Api) -> int:
    now: int = (await api.ok("GET", "/v1/clock"))["now_ms"]
    return now


async def test_a_delay_is_counted_from_the_emulated_now_to_the_millisecond(api: Api) -> None:
    await api.ok("POST", "/v1/clock/advance", {"by": "100d"})
    sent = await api.send(delay_ms=1_234, queue_id=2)
    assert sent["due_ms"] == await now_ms(api) + 1_234
    assert (sent["delay_level"], sent["queue_id"], sent["topic"]) == (0, 2, "orders")
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1233ms"}))["fired"] == 0
    assert await api.receive() == []
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1ms"}))["fired"] == 1
    (message,) = await api.receive()
    assert (message["message_id"], message["store_ms"]) == (sent["message_id"], sent["due_ms"])
    assert message["properties"]["TIMER_DELAY_MS"] == "1234"
    assert message["properties"]["TIMER_OUT_MS"] == str(sent["due_ms"])


async def test_start_deliver_time_is_shifted_by_clock_moves(api: Api) -> None:
    for _ in range(2):
        start_ms = wall_ms() + HOUR_MS
        sent = await api.send(start_deliver_ms=start_ms)
        ahead_ms = sent["due_ms"] - await now_ms(api)
        assert HOUR_MS - PATIENCE_MS < ahead_ms <= HOUR_MS
        move = await api.ok("POST", "/v1/clock/advance", {"by": f"{ahead_ms - 1}ms"})
        assert (move["fired"], move["next_due_ms"]) == (0, sent["due_ms"])
        assert (await api.ok("POST", "/v1/clock/advance", {"by": "1ms"}))["fired"] == 1
        (message,) = await api.receive()
        assert message["properties"][START] == str(start_ms)
        assert message["store_ms"] == sent["due_ms"]
        await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [message["receipt"]]})
        await api.ok("POST", "/v1/clock/advance", {"by": "1000d"})


async def test_real_clock_shifts_instants_by_its_moves_only() -> None:
    async with running_api(clock="real") as api:
        start_ms = wall_ms() + HOUR_MS
        assert (await api.send(start_deliver_ms=start_ms))["due_ms"] == start_ms
        await api.ok("POST", "/v1/clock/advance", {"by": "10m"})
        shift_ms = (await api.send(start_deliver_ms=start_ms))["due_ms"] - start_ms
        assert 600_000 - PATIENCE_MS < shift_ms <= 600_000
        assert (await api.send(properties={START: str(start_ms)}))["due_ms"] == start_ms + shift_ms
        assert (await api.send(properties={"TIMER_DELIVER_MS": str(start_ms)}))[
            "due_ms"
        ] == start_ms + shift_ms


@pytest.mark.parametrize(
    "fields",
    [
        {"start_deliver_ms": 0},
        {"start_deliver_ms": 1_700_000_000_000},
        {"start_deliver_ms": 1_700_000_000_000, "delay_level": 0},
        {"delay_ms": 0, "delay_level": -1},
        {"properties": {START: "-5"}},
        {"properties": {"TIMER_DELAY_SEC": "0"}},
        {"properties": {"TIMER_DELIVER_MS": "1"}},
    ],
)
async def test_a_past_due_time_delivers_at_once(api: Api, fields: Any) -> None:
    sent = await api.send(**fields)
    assert (sent["due_ms"], sent["delay_level"]) == (None, 0)
    assert [message["message_id"] for message in await api.receive()] == [sent["message_id"]]


@pytest.mark.parametrize(
    ("name", "text", "delay_ms"), [("TIMER_DELAY_SEC", "90", 90_000), ("TIMER_DELAY_MS", "1500", 1_500)]
)
async def test_delays_may_be_given_as_sdk_properties(api: Api, name: str, text: str, delay_ms: int) -> None:
    sent = await api.send(properties={name: text, "region": "eu"})
    assert sent["due_ms"] == await now_ms(api) + delay_ms
    assert (await api.ok("POST", "/v1/clock/next"))["now_ms"] == sent["due_ms"]
    (message,) = await api.receive()
    assert (message["properties"][name], message["properties"]["region"]) == (text, "eu")


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"delay_ms": -1}, "delay_ms", f"a whole number from 0 to {LONGEST_US // US_PER_MS}"),
        ({"delay_ms": "5"}, "delay_ms", f"a whole number from 0 to {LONGEST_US // US_PER_MS}"),
        ({"start_deliver_ms": -1}, "start_deliver_ms", "a whole number from 0 to 253402300799999"),
        ({"start_deliver_ms": 1 << 60}, "start_deliver_ms", "a whole number from 0 to 253402300799999"),
        (
            {"properties": {"TIMER_OUT_MS": "5"}},
            "properties.TIMER_OUT_MS",
            "no value, as the name is reserved",
        ),
        (
            {"properties": {"TIMER_DEL_UNIQKEY": "a"}},
            "properties.TIMER_DEL_UNIQKEY",
            "no value, as the name is reserved",
        ),
    ],
)
async def test_a_wrong_delay_is_refused_by_field(api: Api, fields: Any, field: str, allowed: str) -> None:
    problem = await api.refused(400, "POST", MESSAGES, {"body": "a", **fields})
    assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", field)
    assert problem["allowed"] == allowed


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [
        ({"delay_level": 1, "delay_ms": 0}, "delay_level", "delay_ms"),
        ({"delay_level": 1, "start_deliver_ms": 0}, "delay_level", "start_deliver_ms"),
        ({"delay_ms": 1, "start_deliver_ms": 1}, "delay_ms", "start_deliver_ms"),
        ({"delay_ms": 1, "properties": {"TIMER_DELAY_MS": "1"}}, "delay_ms", "properties.TIMER_DELAY_MS"),
        ({"start_deliver_ms": 1, "properties": {START: "1"}}, "start_deliver_ms", f"properties.{START}"),
        ({"start_deliver_ms": 1, "properties": {"TIMER_DELAY_SEC": "1"}}, "start_deliver_ms", None),
        ({"delay_level": 2, "properties": {START: "1"}}, "delay_level", f"properties.{START}"),
        (
            {"properties": {"TIMER_DELIVER_MS": "1", START: "1"}},
            f"properties.{START}",
            "properties.TIMER_DELIVER_MS",
        ),
        (
            {"properties": {"TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "1"}},
            "properties.TIMER_DELAY_SEC",
            "properties.TIMER_DELAY_MS",
        ),
    ],
)
async def test_second_delay_is_refused(api: Api, fields: Any, first: str, second: str | None) -> None:
    problem = await api.refused(400, "POST", MESSAGES, {"body": "a", **fields})
    assert problem["type"] == "/problems/invalid-argument"
    assert second in (None, problem["field"])
    assert problem["allowed"] == f"no value, because {first} is given and a message has one delay"
    problem = await api.refused(400, "POST", f"{MESSAGES}/batch", {"messages": [{"body": "a", **fields}]})
    assert second in (None, problem["field"])


@pytest.mark.parametrize("name", [START, "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
async def test_a_property_that_is_not_a_number_is_refused(api: Api, name: str) -> None:
    problem = await api.refused(400, "POST", MESSAGES, {"body": "a", "properties": {name: "soon"}})
    assert (problem["type"], problem["field"]) == ("/problems/illegal-message", f"properties.{name}")
    assert f"property {name} is 'soon'; allowed: " in problem["detail"]
    assert await api.receive() == []


async def test_distant_or_malformed_due_times_follow_the_mode() -> None:
    far = {"body": "far", "start_deliver_ms": wall_ms() + WINDOW_MS + HOUR_MS}
    async with running_api() as api:
        await api.send(start_deliver_ms=wall_ms() + WINDOW_MS)
        problem = await api.refused(400, "POST", MESSAGES, far)
        assert (problem["type"], problem["field"]) == ("/problems/illegal-message", "start_deliver_ms")
        assert "allowed: at most 40d ahead, now up to " in problem["detail"]
    async with running_api(start_deliver_time="aliyun5") as api:
        assert (await api.ok("POST", MESSAGES, far))["due_ms"] is None
    async with running_api(start_deliver_window_us=HOUR_MS * US_PER_MS) as api:
        assert (await api.send(start_deliver_ms=wall_ms() + HOUR_MS))["due_ms"]
        await api.refused(400, "POST", MESSAGES, {"body": "x", "start_deliver_ms": wall_ms() + 2 * HOUR_MS})
    async with running_api(start_deliver_time="dongwo") as api:
        assert (await api.ok("POST", MESSAGES, far))["due_ms"] > await now_ms(api) + WINDOW_MS
        problem = await api.refused(400, "POST", MESSAGES, {"body": "a", "properties": {START: "abc"}})
        assert problem["type"] == "/problems/invalid-argument"
        assert problem["detail"].startswith('java.lang.NumberFormatException: For input string: "abc"; ')


async def test_a_batch_may_hold_every_kind_of_delay(api: Api) -> None:
    start_ms = wall_ms() + HOUR_MS
    messages = [
        *({"body": "now"}, {"body": "level", "delay_level": 1}, {"body": "delay", "delay_ms": 2_000}),
        {"body": "start", "start_deliver_ms": start_ms},
    ]
    sent = (await api.ok("POST", f"{MESSAGES}/batch", {"messages": messages}))["sent"]
    at_ms = await now_ms(api)
    assert [one["due_ms"] for one in sent[:3]] == [None, at_ms + 1_000, at_ms + 2_000]
    assert (await api.ok("GET", "/v1/clock"))["pending"] == 3
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1h"}))["fired"] == 3
    received = {message["body"]: message["store_ms"] for message in await api.receive()}
    assert received == {
        "now": at_ms,
        "level": at_ms + 1_000,
        "delay": at_ms + 2_000,
        "start": sent[3]["due_ms"],
    }
