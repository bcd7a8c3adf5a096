"""Sending, browsing and looking up over HTTP."""

from typing import Any

import pytest

from tests.support.api import Api, running_api

MESSAGES = "/v1/topics/orders/messages"
LARGEST = 4 << 20


def broker_port(api: Api) -> int:
    assert api.emulator.remoting
    return api.emulator.remoting.broker_port


async def test_send_answers_with_the_place_of_the_message(api: Api) -> None:
    answer = await api.call("POST", MESSAGES, {"body": "hello", "queue_id": 2, "message_id": "m-1"})
    now_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    assert (answer.status, answer.headers["Content-Type"]) == (201, "application/json")
    assert answer.body == {
        "message_id": "m-1",
        "offset_message_id": f"7F0000010000{broker_port(api):04X}0000000000000000",
        "topic": "orders",
        "queue_id": 2,
        "queue_offset": 0,
        "log_offset": 0,
        "store_ms": now_ms,
        "delay_level": 0,
        "due_ms": None,
    }


async def test_delayed_send_answers_with_due_time_and_real_queue(api: Api) -> None:
    sent = await api.send(delay_level=3, queue_id=1)
    assert (sent["topic"], sent["queue_id"], sent["delay_level"]) == ("orders", 1, 3)
    assert sent["due_ms"] == sent["store_ms"] + 10_000
    assert (await api.send(delay_level=99))["delay_level"] == 18
    assert [(await api.send(delay_level=level))["due_ms"] for level in (0, -1)] == [None, None]


async def test_every_field_of_a_sent_message_is_returned(api: Api) -> None:
    fields: dict[str, Any] = {
        "tag": "paid",
        "keys": ["order-1", "für-2"],
        "properties": {"region": "eu", "note": "a b"},
        "born_ms": 1_700_000_000_123,
        "flag": -7,
        "queue_id": 0,
    }
    sent = await api.send(body="naïve ☃", **fields)
    (message,) = (await api.ok("GET", "/v1/topics/orders/queues/0/messages"))["messages"]
    assert {name: message[name] for name in fields if name != "properties"} == {
        name: value for name, value in fields.items() if name != "properties"
    }
    assert message["properties"] == {
        "region": "eu",
        "note": "a b",
        "TAGS": "paid",
        "KEYS": "order-1 für-2",
        "UNIQ_KEY": sent["message_id"],
    }
    assert (message["body"], message["body_base64"]) == ("naïve ☃", None)
    assert message["born_host"].startswith("127.0.0.1:")
    assert message["store_host"] == f"127.0.0.1:{broker_port(api)}"
    assert {name: message[name] for name in sent if name in message and name != "due_ms"} == {
        name: value for name, value in sent.items() if name in message and name != "due_ms"
    }
    assert (message["due_ms"], message["parked_offset_message_id"], message["reconsume_times"]) == (
        None,
        None,
        0,
    )


async def test_binary_bodies_travel_as_base64(api: Api) -> None:
    await api.ok("POST", MESSAGES, {"body_base64": "/wAB", "queue_id": 0})
    await api.ok("POST", MESSAGES, {"body_base64": "aGk=", "queue_id": 0})
    binary, text = (await api.ok("GET", "/v1/topics/orders/queues/0/messages"))["messages"]
    assert (binary["body"], binary["body_base64"]) == (None, "/wAB")
    assert (text["body"], text["body_base64"]) == ("hi", None)


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({}, "body", None),
        ({"body": "a", "body_base64": "YQ=="}, "body", None),
        ({"body": ""}, "body", "text that is not empty"),
        ({"body": 5}, "body", "text that is not empty"),
        ({"body_base64": "%%"}, "body_base64", "at least one byte, as base64"),
        ({"body": "a", "tag": ""}, "tag", "text that is not empty and has neither U+0001 nor U+0002"),
        ({"body": "a", "keys": ["a b"]}, "keys[0]", "text without spaces and control characters"),
        ({"body": "a", "flag": 1 << 31}, "flag", "a whole number from -2147483648 to 2147483647"),
        ({"body": "a", "flag": 1.5}, "flag", "a whole number from -2147483648 to 2147483647"),
        ({"body": "a", "queue_id": -1}, "queue_id", "a whole number from 0 to 8191"),
        ({"body": "a", "delay_level": "3"}, "delay_level", "a whole number from -2147483648 to 2147483647"),
        (
            {"body": "a", "properties": {"DELAY": "3"}},
            "properties.DELAY",
            "only the field delay_level",
        ),
        (
            {"body": "a", "properties": {"UNIQ_KEY": "x"}},
            "properties.UNIQ_KEY",
            "only the field message_id",
        ),
        (
            {"body": "a", "properties": {"REAL_QID": "3"}},
            "properties.REAL_QID",
            "no value, as the name is reserved",
        ),
        (
            {"body": "a", "properties": {"_SYS_MSG_PRIORITY_": "9"}},
            "properties._SYS_MSG_PRIORITY_",
            "only the field priority",
        ),
        (
            {"body": "a", "properties": {"__LITE_TOPIC": "chat-1"}},
            "properties.__LITE_TOPIC",
            "only the field lite_topic",
        ),
        ({"body": "a", "properties": {"a": "b\x01"}}, "properties[...]", None),
        ({"body": "a", "properties": {"a": "b" * 33_000}}, "properties", None),
        ({"body": "a", "message_id": "a/b"}, "message_id", None),
        ({"body": "a", "delay": 3}, "delay", None),
        ([], "body", "an object"),
    ],
)
async def test_message_beyond_a_limit_is_refused_by_field(
    api: Api, body: Any, field: str, allowed: str | None
) -> None:
    problem = await api.refused(400, "POST", MESSAGES, body)
    assert problem["field"] == field
    assert allowed in (None, problem.get("allowed"))
    topics = (await api.ok("GET", "/v1/topics"))["topics"]
    assert not any(queue["max_offset"] for topic in topics for queue in topic["queues"])


async def test_refusals_of_a_send_have_their_own_status() -> None:
    async with running_api(auto_create_topics=False) as api:
        body = {"body": "x"}
        assert (await api.refused(404, "POST", MESSAGES, body))["type"] == "/problems/topic-not-found"
        await api.ok("PUT", "/v1/topics/orders", {"perm": "r"})
        assert (await api.refused(403, "POST", MESSAGES, body))["type"] == "/problems/no-permission"
        await api.ok("PUT", "/v1/topics/orders", {"write_queues": 2, "read_queues": 2, "perm": "rw"})
        problem = await api.refused(409, "POST", MESSAGES, {"body": "x", "queue_id": 2})
        assert (problem["type"], problem["field"], problem["allowed"]) == (
            "/problems/wrong-queue",
            "queue_id",
            "0 to 1",
        )
        problem = await api.refused(403, "POST", "/v1/topics/SCHEDULE_TOPIC_XXXX/messages", body)
        assert problem["title"] == "No permission"
        problem = await api.refused(400, "POST", "/v1/topics/a%20b/messages", body)
        assert (problem["field"], problem["type"]) == ("topic", "/problems/invalid-argument")


async def test_base64_body_may_have_the_largest_size_and_no_more() -> None:
    async with running_api(max_message_bytes=3000) as api:
        await api.ok("POST", MESSAGES, {"body_base64": "AAAA" * 1000})
        problem = await api.refused(400, "POST", MESSAGES, {"body": "a" * 3001})
        assert (problem["type"], problem["field"]) == ("/problems/illegal-message", "body")
        assert "1 to 3000" in problem["detail"]


async def test_a_batch_is_stored_as_a_whole_or_not_at_all(api: Api) -> None:
    path = f"{MESSAGES}/batch"
    two = [{"body": "a", "queue_id": 0}, {"body": "b", "queue_id": 0, "delay_level": 1}]
    sent = (await api.ok("POST", path, {"messages": two}))["sent"]
    assert [one["delay_level"] for one in sent] == [0, 1]
    assert [one["log_offset"] for one in sent] == [0, 1]
    problem = await api.refused(409, "POST", path, {"messages": [*two, {"body": "c", "queue_id": 9}]})
    assert problem["field"] == "queue_id"
    problem = await api.refused(400, "POST", path, {"messages": [*two, {"body": "c", "flag": "no"}]})
    assert problem["field"] == "messages[2].flag"
    for count in (0, 1001):
        problem = await api.refused(400, "POST", path, {"messages": [{"body": "x"}] * count})
        assert (problem["field"], problem["allowed"]) == ("messages", "a list of 1 to 1000 entries")
    assert (await api.send(queue_id=0))["log_offset"] == 2


async def test_a_batch_may_move_the_clock_first(api: Api) -> None:
    path = f"{MESSAGES}/batch"
    await api.send(delay_level=1, queue_id=0)
    before_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    batch = {"messages": [{"body": "a", "queue_id": 0}], "advance": "1500ms"}
    [sent] = (await api.ok("POST", path, batch))["sent"]
    assert sent["queue_offset"] == 1, "the delayed message was delivered on the way"
    assert sent["store_ms"] - before_ms >= 1_500
    problem = await api.refused(400, "POST", path, {**batch, "advance": "soon"})
    assert problem["field"] == "advance"
    assert (await api.refused(409, "POST", path, {"messages": [{"body": "a", "queue_id": 9}]}))["field"]


async def test_browsing_leaves_no_trace(api: Api) -> None:
    path = "/v1/topics/orders/queues/0/messages"
    for tag in ("A", "B", "A"):
        await api.send(tag=tag, queue_id=0)
    page = await api.ok("GET", f"{path}?max=2")
    assert (page["status"], page["next_offset"], page["min_offset"], page["max_offset"]) == ("FOUND", 2, 0, 3)
    page = await api.ok("GET", f"{path}?offset=1&filter=A")
    assert [message["queue_offset"] for message in page["messages"]] == [2]
    assert (await api.ok("GET", f"{path}?offset=3"))["status"] == "OFFSET_OVERFLOW_ONE"
    assert len(await api.receive()) == 3
    for query, field in (
        ("max=0", "max"),
        ("offset=-1", "offset"),
        ("nothing=1", "nothing"),
        ("max=x", "max"),
    ):
        assert (await api.refused(400, "GET", f"{path}?{query}"))["field"] == field
    problem = await api.refused(400, "GET", f"{path}?max=1&max=2")
    assert (problem["field"], problem["allowed"]) == ("max", "one value")
    assert (await api.refused(400, "GET", f"{path}?topic=other"))["field"] == "topic"
    problem = await api.refused(404, "GET", "/v1/topics/orders/queues/4/messages")
    assert (problem["type"], problem["field"]) == ("/problems/queue-not-found", "queue_id")
    assert (await api.refused(404, "GET", "/v1/topics/none/queues/0/messages"))["title"] == "Topic not found"


async def test_a_history_has_every_event_of_a_message(api: Api) -> None:
    sent = await api.send(delay_level=1)
    path = f"/v1/messages/{sent['message_id']}"
    assert (await api.ok("GET", path))["state"] == "pending"
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    (taken,) = await api.receive()
    await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [taken["receipt"]]})
    life = await api.ok("GET", path)
    assert life == await api.ok("GET", f"/v1/messages/{sent['offset_message_id']}")
    assert life == await api.ok("GET", f"/v1/messages/{taken['offset_message_id']}")
    parked, delivered = life["records"]
    assert (life["message_id"], life["state"]) == (sent["message_id"], "delivered")
    assert (parked["topic"], parked["due_ms"]) == ("SCHEDULE_TOPIC_XXXX", sent["due_ms"])
    assert (delivered["topic"], delivered["due_ms"]) == ("orders", None)
    assert delivered["parked_offset_message_id"] == parked["offset_message_id"]
    (delivery,) = life["deliveries"]
    assert delivery["due_us"] == delivery["delivered_us"] == sent["due_ms"] * 1000
    assert (delivery["pulled_by"], delivery["forced"]) == ("billing", 0)
    assert delivery["acked_us"] == delivery["delivered_us"]
    (take,) = life["receipts"]
    assert (take["group"], take["outcome"], take["times"]) == ("billing", "acked", 1)
    assert life["interventions"] == []


async def test_life_has_the_state_of_the_message(api: Api) -> None:
    stored, cancelled, forced = [await api.send(delay_level=level) for level in (0, 2, 2)]
    await api.ok("DELETE", f"/v1/delayed/{cancelled['message_id']}")
    await api.ok("POST", f"/v1/delayed/{forced['message_id']}/deliver")
    lives = [await api.ok("GET", f"/v1/messages/{one['message_id']}") for one in (stored, cancelled, forced)]
    assert [life["state"] for life in lives] == ["stored", "cancelled", "delivered"]
    assert [one["kind"] for one in lives[1]["interventions"]] == ["cancelled"]
    assert [one["kind"] for one in lives[2]["interventions"]] == ["forced"]
    assert (await api.refused(404, "GET", "/v1/messages/none"))["type"] == "/problems/message-not-found"


async def test_lookup_by_key_returns_at_most_4_mib(api: Api) -> None:
    async def bodies_found() -> list[int]:
        return [len(one["body"]) for one in (await api.ok("GET", "/v1/messages?key=k"))["messages"]]

    await api.send(keys=["k"], body="x" * LARGEST)
    await api.send(keys=["k"], body="y")
    assert await bodies_found() == [LARGEST]
    await api.ok("POST", "/v1/reset")
    for _ in range(5):
        await api.send(keys=["k"], body="z" * (1 << 20))
    assert await bodies_found() == [1 << 20] * 4


async def test_messages_are_found_by_key(api: Api) -> None:
    first = await api.send(keys=["k", "other"])
    second = await api.send(topic="bills", keys=["k"])
    await api.send(keys=["kk"])

    async def found(query: str) -> list[str]:
        return [one["message_id"] for one in (await api.ok("GET", f"/v1/messages?{query}"))["messages"]]

    assert await found("key=k") == [first["message_id"], second["message_id"]]
    assert await found("key=k&topic=bills") == [second["message_id"]]
    assert await found("key=k&max=1") == [first["message_id"]]
    assert await found("key=nobody") == []
    problem = await api.refused(400, "GET", "/v1/messages")
    assert (problem["field"], problem["allowed"]) == ("key", "text of 1 to 255 characters")
    assert problem["detail"].startswith("key is missing")
