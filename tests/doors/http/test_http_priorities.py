"""Priority messages over HTTP, and where the JSON API shows priorities."""

from typing import Any

import pytest

from mocketmq import Client
from tests.support.api import Api

MESSAGES = "/v1/topics/orders/messages"


@pytest.fixture
async def by_priority(api: Api) -> Api:
    """An emulator with a topic of type ``priority``."""
    wanted = {"type": "priority", "read_queues": 10, "write_queues": 10}
    assert (await api.ok("PUT", "/v1/topics/orders", wanted))["type"] == "priority"
    return api


async def test_highest_priority_is_received_first(by_priority: Api) -> None:
    for priority in (3, 0, 9, 12, 5):
        sent = await by_priority.send(body=str(priority), priority=priority)
        assert sent["queue_id"] == min(priority, 9)
    found = await by_priority.receive()
    assert [(one["body"], one["priority"]) for one in found] == [
        ("9", 9),
        ("12", 12),
        ("5", 5),
        ("3", 3),
        ("0", 0),
    ]


async def test_a_batch_has_a_priority_for_each_message(by_priority: Api) -> None:
    messages = [{"body": str(priority), "priority": priority} for priority in (1, 8, 3)]
    await by_priority.ok("POST", f"{MESSAGES}/batch", {"messages": [*messages, {"body": "plain"}]})
    found = await by_priority.receive()
    assert [one["body"] for one in found if one["priority"] is not None] == ["8", "3", "1"]


async def test_history_shows_the_priority_of_each_record(by_priority: Api) -> None:
    sent = await by_priority.send(priority=7)
    [message] = await by_priority.receive()
    await by_priority.ok("POST", "/v1/groups/billing/give-back", {"receipts": [message["receipt"]]})
    history = await by_priority.ok("GET", f"/v1/messages/{sent['message_id']}")
    assert [record["priority"] for record in history["records"]] == [7, 7]
    assert history["life"][0]["text"] == "sent to orders by http with priority 7"
    plain = await by_priority.send()
    history = await by_priority.ok("GET", f"/v1/messages/{plain['message_id']}")
    assert [record["priority"] for record in history["records"]] == [None]


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"priority": -1}, "priority", None),
        ({"priority": 2**31}, "priority", None),
        ({"priority": "9"}, "priority", None),
        ({"priority": 9, "queue_id": 9}, "queue_id", "no value, because the priority chooses the queue"),
        ({"priority": 9, "delay_level": 3}, "priority", None),
        ({"priority": 9, "delay": "5s"}, "priority", None),
        ({"priority": 9, "start_deliver_ms": 5}, "priority", None),
        ({"priority": 9, "properties": {"__SHARDINGKEY": "k"}}, "priority", None),
    ],
)
async def test_a_priority_without_effect_is_refused(
    by_priority: Api, fields: dict[str, Any], field: str, allowed: str | None
) -> None:
    problem = await by_priority.refused(400, "POST", MESSAGES, {"body": "m", **fields})
    assert problem["field"] == field
    assert allowed in (None, problem.get("allowed"))
    assert await by_priority.receive() == []


async def test_a_half_message_has_no_priority(by_priority: Api) -> None:
    half = {"body": "m", "group": "makers", "priority": 1}
    problem = await by_priority.refused(400, "POST", "/v1/topics/orders/transactions", half)
    assert problem["field"] == "priority"


@pytest.mark.parametrize("kind", ["mixed", "normal", None])
async def test_a_topic_of_another_type_takes_no_priority_over_http(api: Api, kind: str | None) -> None:
    if kind is not None:
        await api.ok("PUT", "/v1/topics/orders", {"type": kind})
    problem = await api.refused(400, "POST", MESSAGES, {"body": "m", "priority": 9})
    assert problem["field"] == "priority"
    assert problem["allowed"] == (
        'no value, because the topic is not of type priority. Create the topic with {"type": "priority"}'
    )


async def test_the_factor_is_kept_until_it_is_changed(by_priority: Api) -> None:
    async with Client(by_priority.emulator.url) as client:
        assert (await client.put_group("billing"))["priority_factor"] == 100
        assert (await client.put_group("billing", priority_factor=0))["priority_factor"] == 0
        assert (await client.put_group("billing", fifo=False))["priority_factor"] == 0
        for priority in (3, 9):
            await client.send("orders", str(priority), priority=priority)
        [message] = await client.receive("orders", group="billing")
        assert message["body"] == "3"
