"""Consuming by receipt over HTTP, and clients that disconnect while they wait."""

import asyncio
import json

import pytest

from mocketmq.http_api.consuming import ReceiveIn, receive
from mocketmq.http_api.fields import GroupPath
from mocketmq.http_api.route import ApiCall
from tests.support.api import Api, running_api
from tests.support.gone_request import gone_request
from tests.support.patience import PATIENCE_S
from tests.support.waiting import Waiting


@pytest.fixture
def waiting(api: Api) -> Waiting:
    """Tracks the broker's long polls."""
    return Waiting(api.emulator.broker.polls)


async def open_receive(api: Api) -> asyncio.StreamWriter:
    """Open a connection with a sent receive request, which the test may close."""
    host, port = api.emulator.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"topic": "orders", "wait_ms": 30_000})
    head = f"POST /v1/groups/billing/receive HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    await writer.drain()
    return writer


async def test_taken_messages_are_acknowledged_by_receipt(api: Api) -> None:
    sent = await api.send(tag="A")
    await api.send(tag="B")
    (message,) = await api.receive(filter="A || C", invisible_ms=60_000)
    assert (message["message_id"], message["topic"]) == (sent["message_id"], "orders")
    assert (message["times"], message["attempt"]) == (1, 1)
    assert message["visible_ms"] == sent["store_ms"] + 60_000
    receipt = message["receipt"]
    answer = await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [receipt, "x-y"]})
    assert (answer["settled"], [one["receipt"] for one in answer["failed"]]) == ([receipt], ["x-y"])
    problem = await api.refused(409, "POST", "/v1/groups/billing/ack", {"receipts": [receipt, "x-y"]})
    assert (problem["type"], problem["title"]) == ("/problems/receipt", "Receipt")
    assert "none of the 2 receipts" in problem["detail"]
    assert (await api.refused(404, "POST", "/v1/groups/none/ack", {"receipts": ["x"]}))[
        "title"
    ] == "Group not found"


async def test_a_condition_on_properties_chooses_messages(api: Api) -> None:
    for price in range(1, 6):
        await api.send(properties={"price": str(price)}, queue_id=price % 2)
    sql = {"filter": "price IN ('2', '3') OR price >= 5", "filter_type": "SQL92"}
    assert [message["properties"]["price"] for message in await api.receive(**sql)] == ["2", "3", "5"]
    path = "/v1/topics/orders/queues/1/messages?filter_type=SQL92&filter=price%20%3E%201"
    found = await api.ok("GET", path)
    assert [message["properties"]["price"] for message in found["messages"]] == ["3", "5"]


async def test_receive_ignores_the_long_poll_limit() -> None:
    async with running_api(max_long_poll_us=0) as api:
        waiting = Waiting(api.emulator.broker.polls)
        receiving = asyncio.create_task(api.receive(wait_ms=30_000))
        await waiting.begun()
        await api.send()
        (message,) = await receiving
        assert message["body"] == "hello"


async def test_a_wrong_condition_is_refused_at_its_column(api: Api) -> None:
    for method, path, body in (
        ("POST", "/v1/groups/billing/receive", {"topic": "orders", "filter": "a =", "filter_type": "SQL92"}),
        ("GET", "/v1/topics/orders/queues/0/messages?filter_type=SQL92&filter=a%20%3D", None),
    ):
        problem = await api.refused(400, method, path, body)
        assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", "filter")
        assert problem["detail"].startswith("line 1, column 4 of the filter: the expression ends too early")
        assert problem["allowed"].startswith("an expression of SQL92")


async def test_a_message_given_back_is_redelivered_as_a_retry(api: Api) -> None:
    await api.send()
    (message,) = await api.receive()
    await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": [message["receipt"]], "delay_level": 2})
    assert (await api.ok("POST", "/v1/clock/next"))["fired"] == 1
    (again,) = await api.receive()
    assert (again["topic"], again["attempt"], again["times"]) == ("orders", 2, 1)
    await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": [again["receipt"]], "delay_level": -1})
    (dead,) = await api.receive("%DLQ%billing", "undertaker")
    assert dead["body"] == "hello"


async def test_extending_by_zero_makes_a_message_visible_at_once(api: Api) -> None:
    await api.send()
    (message,) = await api.receive()
    path = "/v1/groups/billing/extend"
    await api.ok("POST", path, {"receipts": [message["receipt"]], "invisible_ms": 43_200_000})
    await api.ok("POST", "/v1/clock/advance", {"by": "11h"})
    assert await api.receive() == []
    await api.ok("POST", path, {"receipts": [message["receipt"]], "invisible_ms": 0})
    (again,) = await api.receive(wait_ms=30_000)
    assert again["times"] == 2
    await api.refused(409, "POST", path, {"receipts": [message["receipt"]], "invisible_ms": 1})


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("receive", {}, "topic"),
        ("receive", {"topic": "a b"}, "topic"),
        ("receive", {"topic": "orders", "max": 257}, "max"),
        ("receive", {"topic": "orders", "wait_ms": 30_001}, "wait_ms"),
        ("receive", {"topic": "orders", "invisible_ms": 0}, "invisible_ms"),
        ("receive", {"topic": "orders", "invisible_ms": 43_200_001}, "invisible_ms"),
        ("receive", {"topic": "orders", "filter": "||"}, "filter"),
        ("receive", {"topic": "orders", "filter": "||".join(map(str, range(101)))}, "filter"),
        ("receive", {"topic": "orders", "filter_type": "REGEX"}, "filter_type"),
        ("ack", {"receipts": []}, "receipts"),
        ("ack", {"receipts": ["x"] * 1001}, "receipts"),
        ("ack", {"receipts": [7]}, "receipts[0]"),
        ("give-back", {"receipts": ["x"], "delay_level": 1 << 31}, "delay_level"),
        ("extend", {"receipts": ["x"]}, "invisible"),
    ],
)
async def test_a_value_beyond_its_limit_is_refused_by_field(
    api: Api, action: str, body: dict[str, object], field: str
) -> None:
    problem = await api.refused(400, "POST", f"/v1/groups/billing/{action}", body)
    assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", field)
    assert problem["allowed"]


async def test_refusals_of_a_receive_have_their_own_status() -> None:
    async with running_api(auto_create_topics=False, auto_create_groups=False) as api:
        path = "/v1/groups/billing/receive"
        assert (await api.refused(404, "POST", path, {"topic": "orders"}))["title"] == "Topic not found"
        await api.ok("PUT", "/v1/topics/orders", {"perm": "w"})
        assert (await api.refused(403, "POST", path, {"topic": "orders"}))["title"] == "No permission"
        await api.ok("PUT", "/v1/topics/orders", {"perm": "rw"})
        assert (await api.refused(404, "POST", path, {"topic": "orders"}))["title"] == "Group not found"
        await api.ok("PUT", "/v1/groups/billing")
        assert await api.receive() == []


async def test_receiver_disconnecting_while_waiting_consumes_nothing(api: Api, waiting: Waiting) -> None:
    writer = await open_receive(api)
    await waiting.begun()
    writer.close()
    await writer.wait_closed()
    await waiting.ended()
    await api.send()
    (message,) = await api.receive()
    assert message["times"] == 1


@pytest.mark.parametrize("_", range(10))
async def test_receiver_disconnecting_at_an_arrival_consumes_nothing(
    api: Api, waiting: Waiting, _: int
) -> None:
    writer = await open_receive(api)
    await waiting.begun()
    writer.transport.abort()
    await api.send()
    (message,) = await api.receive(wait_ms=10_000)
    assert message["times"] == 1


async def test_receive_by_a_disconnected_client_is_undone(api: Api) -> None:
    await api.send()
    call = ApiCall(api.emulator.http.api, gone_request())
    taken = await receive(call, GroupPath(group="billing"), ReceiveIn(topic="orders"))
    assert len(taken.messages) == 1
    (message,) = await api.receive()
    assert message["times"] == 1


async def test_stopping_ends_the_waits_of_receivers(api: Api, waiting: Waiting) -> None:
    receiver = asyncio.create_task(api.receive(wait_ms=30_000))
    await waiting.begun()
    api.emulator.broker.polls.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await receiver == []
