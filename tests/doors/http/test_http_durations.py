"""Durations in requests: texts as well as milliseconds, and limits in the request's terms."""

import asyncio
from typing import Any

import pytest

from tests.support.api import Api, running_api

DAY_MS = 86_400_000
MESSAGES = "/v1/topics/orders/messages"
RECEIVE = "/v1/groups/billing/receive"


@pytest.mark.parametrize(
    ("delay", "delay_ms"), [("90s", 90_000), ("1h30m", 5_400_000), ("1500us", 2), ("3d", 3 * DAY_MS)]
)
async def test_a_delay_is_a_text(api: Api, delay: str, delay_ms: int) -> None:
    sent = await api.send(delay=delay)
    assert sent["due_ms"] == sent["store_ms"] + delay_ms
    assert (await api.ok("POST", "/v1/clock/next"))["now_ms"] == sent["due_ms"]
    [message] = await api.receive()
    assert message["properties"]["TIMER_DELAY_MS"] == str(delay_ms)


@pytest.mark.parametrize("fields", [{"delay": "40d"}, {"delay_ms": 40 * DAY_MS}])
async def test_a_delay_is_as_long_as_an_instant_may_be_ahead(api: Api, fields: Any) -> None:
    """A clock move by exactly the delay delivers the message; a move one microsecond shorter does not."""
    sent = await api.send(**fields)
    assert sent["due_ms"] == sent["store_ms"] + 40 * DAY_MS
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "959h59m59.999999s"}))["fired"] == 0
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1us"}))["fired"] == 1
    [message] = await api.receive()
    assert message["properties"]["TIMER_DELAY_MS"] == str(40 * DAY_MS)


async def test_a_half_message_is_delayed_as_long(api: Api) -> None:
    half = await api.ok(
        "POST", "/v1/topics/orders/transactions", {"body": "a", "group": "shop", "delay": "30d"}
    )
    assert half["due_ms"] == half["store_ms"] + 30 * DAY_MS


@pytest.mark.parametrize(
    ("settings", "fields", "field", "allowed"),
    [
        ({}, {"delay": "41d"}, "delay", "a duration from 0 to 40d, the most that the setting {} allows"),
        (
            {},
            {"delay_ms": 41 * DAY_MS},
            "delay_ms",
            f"a whole number from 0 to {40 * DAY_MS}, the most that the setting {{}} allows",
        ),
        ({"start_deliver_time": "aliyun5"}, {"delay": "41d"}, "delay", None),
        ({"start_deliver_window_us": 1}, {"delay": "73h"}, "delay", "a duration from 0 to 3d"),
        ({}, {"delay": "soon"}, "delay", None),
    ],
)
async def test_a_longer_delay_is_refused(settings: Any, fields: Any, field: str, allowed: str | None) -> None:
    async with running_api(**settings) as api:
        problem = await api.refused(400, "POST", MESSAGES, {"body": "a", **fields})
    assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", field)
    assert allowed is None or problem["allowed"] == allowed.format("start_deliver_window")


@pytest.mark.parametrize(
    "settings",
    [{"start_deliver_time": "dongwo"}, {"delay_limits": "huawei"}],
    ids=lambda each: next(iter(each)),
)
async def test_a_delay_of_a_year_is_taken_where_that_is_allowed(settings: Any) -> None:
    async with running_api(**settings) as api:
        sent = await api.send(delay="365d")
        assert 0 <= sent["due_ms"] - sent["store_ms"] - 365 * DAY_MS < 1_000  # Huawei rounds to 0.1 s


@pytest.mark.parametrize(("field", "value"), [("delay", "366d"), ("delay_ms", 366 * DAY_MS)])
async def test_delay_limits_refuse_it_by_the_field_that_was_sent(field: str, value: object) -> None:
    async with running_api(delay_limits="huawei") as api:
        problem = await api.refused(400, "POST", MESSAGES, {"body": "a", field: value})
    assert (problem["type"], problem["field"]) == ("/problems/illegal-message", field)
    assert "366d" in problem["detail"]


async def test_two_fields_for_one_delay_are_refused(api: Api) -> None:
    problem = await api.refused(400, "POST", MESSAGES, {"body": "a", "delay": "1s", "delay_ms": 1_000})
    assert (problem["field"], problem["detail"]) == (
        "delay_ms",
        "delay_ms is 1000; allowed: no value, because delay is given and a message has one delay",
    )


async def test_a_wait_is_a_text(api: Api) -> None:
    waits = [
        api.ok("POST", RECEIVE, {"topic": "orders", "wait": "1ms"}),
        api.ok("POST", "/v1/topics/orders/wait", {"sent": 1, "wait": "1ms"}),
        api.ok("GET", "/v1/leaks?wait=1ms"),
    ]
    received, awaited, leaks = await asyncio.gather(*waits)
    assert (received["messages"], awaited["reached"], leaks["count"]) == ([], False, 0)


@pytest.mark.parametrize(
    ("method", "path", "body", "in_ms"),
    [
        ("POST", RECEIVE, {"topic": "orders"}, "wait_ms"),
        ("POST", "/v1/topics/orders/wait", {"sent": 1}, "timeout_ms"),
        ("GET", "/v1/leaks", None, "timeout_ms"),
    ],
)
async def test_a_wait_names_the_setting_that_limits_it(method: str, path: str, body: Any, in_ms: str) -> None:
    async with running_api(max_wait_us=7_000_000) as api:
        for field, value, allowed in (
            ("wait", "8s", "a duration from 0 to 7s, the most that the setting max_wait allows"),
            (in_ms, 8_000, "a whole number from 0 to 7000, the most that the setting max_wait allows"),
        ):
            if body is None:
                problem = await api.refused(400, method, f"{path}?{field}={value}")
            else:
                problem = await api.refused(400, method, path, {**body, field: value})
            assert (problem["field"], problem["allowed"]) == (field, allowed)


async def test_an_invisible_time_is_a_text(api: Api) -> None:
    await api.send()
    [message] = await api.receive(invisible="1m")
    assert message["visible_ms"] == message["store_ms"] + 60_000
    extend = "/v1/groups/billing/extend"
    receipts = {"receipts": [message["receipt"]]}
    await api.ok("POST", extend, {**receipts, "invisible": "2m"})
    await api.ok("POST", "/v1/clock/advance", {"by": "119s"})
    assert await api.receive() == []
    for fields, field in (
        ({}, "invisible"),
        ({"invisible": "1s", "invisible_ms": 1}, "invisible"),
        ({"invisible": "12h1us"}, "invisible"),
    ):
        problem = await api.refused(400, "POST", extend, {**receipts, **fields})
        assert problem["field"] == field
    problem = await api.refused(400, "POST", RECEIVE, {"topic": "orders", "invisible": "0"})
    assert problem["detail"] == "invisible is '0'; allowed: a duration from 1ms to 12h"


async def test_answers_and_problems_end_with_a_newline(api: Api) -> None:
    for path in ("/v1/topics", "/v1/nowhere", "/openapi.json"):
        async with api._session.get(api.emulator.url + path) as answer:
            content = await answer.read()
        assert content.endswith(b"}\n")
        assert content.count(b"\n") == 1
