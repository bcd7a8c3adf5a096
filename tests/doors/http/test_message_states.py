"""The list of messages with states: a row for each, newest first, filtered and in pages."""

from typing import Any

import pytest

from mocketmq.broker.watching import message_list
from tests.support.api import Api

STATES = (
    *("prepared", "rolled back", "abandoned", "stored", "pending", "cancelled", "delivered", "dead"),
    *("never taken", "in flight", "to be redelivered", "to be retried", "acknowledged"),
)


async def listed(api: Api, query: str = "", size: int = 100) -> list[Any]:
    """Return all rows, fetched page by page."""
    rows: list[Any] = []
    before = ""
    while True:
        page = await api.ok("GET", f"/v1/message-states?max={size}{query}{before}")
        assert len(page["messages"]) <= size
        rows += page["messages"]
        if page["next_before"] is None:
            return rows
        before = f"&before={page['next_before']}"


async def ids(api: Api, query: str = "", size: int = 100) -> list[str]:
    return [one["message_id"] for one in await listed(api, query, size)]


async def send_and_take(api: Api, name: str, **fields: Any) -> str:
    """Send and receive a message, and return its receipt for the group billing."""
    await api.send(message_id=name, **fields)
    [taken] = await api.receive()
    receipt: str = taken["receipt"]
    return receipt


async def fill(api: Api) -> dict[str, tuple[str, str | None]]:
    """Create a message in each state; return the expected state and consumption by message id."""
    await send_and_take(api, "taken")
    await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [await send_and_take(api, "acked")]})
    for name, level in (("again", 1), ("given-back", 18), ("dead", -1)):
        receipts = [await send_and_take(api, name)]
        await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": receipts, "delay_level": level})
    await api.send(message_id="delivered", delay_level=1, topic="bills")
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    await api.send(message_id="sent", topic="bills")
    await api.send(message_id="level", delay_level=18, topic="bills")
    await api.send(message_id="timed", delay_ms=3_600_000, topic="bills")
    await api.send(message_id="level-cancelled", delay_level=18)
    await api.send(message_id="timed-cancelled", delay_ms=60_000)
    for name in ("level-cancelled", "timed-cancelled"):
        await api.ok("DELETE", f"/v1/delayed/{name}")
    halves = {"half": None, "rolled-back": "rollback", "committed": "commit", "committed-timed": "commit"}
    for name, decision in halves.items():
        given: dict[str, Any] = {"body": name, "group": "makers", "message_id": name}
        if name == "committed-timed":
            given["delay_ms"] = 3_600_000
        await api.ok("POST", "/v1/topics/payments/transactions", given)
        if decision:
            await api.ok("POST", f"/v1/transactions/{name}/{decision}")
    return {
        "taken": ("stored", "in flight"),
        "acked": ("stored", "acknowledged"),
        "given-back": ("pending", "to be retried"),
        "dead": ("dead", None),
        "again": ("delivered", "to be redelivered"),
        "delivered": ("delivered", "never taken"),
        "sent": ("stored", "never taken"),
        "level": ("pending", None),
        "timed": ("pending", None),
        "level-cancelled": ("cancelled", None),
        "timed-cancelled": ("cancelled", None),
        "half": ("prepared", None),
        "rolled-back": ("rolled back", None),
        "committed": ("stored", "never taken"),
        "committed-timed": ("pending", None),
    }


async def test_each_message_has_one_row_with_its_state(api: Api) -> None:
    expected = await fill(api)
    rows = await listed(api)
    assert {one["message_id"]: (one["state"], one["consumption"]) for one in rows} == expected
    assert len(rows) == len(expected)
    for state in STATES:
        wanted = {name for name, states in expected.items() if state in states}
        assert (state, set(await ids(api, f"&state={state.replace(' ', '%20')}"))) == (state, wanted)
    for name, (state, consumption) in expected.items():
        history = await api.ok("GET", f"/v1/messages/{name}")
        assert (name, history["state"], history["consumption"]) == (name, state, consumption)


async def test_rows_name_topic_group_and_times(api: Api) -> None:
    await fill(api)
    rows = {one["message_id"]: one for one in await listed(api)}
    for name in ("given-back", "dead", "again"):
        assert (name, rows[name]["topic"], rows[name]["group"]) == (name, "orders", "billing")
    assert rows["taken"]["group"] is None
    [at_billing] = rows["taken"]["groups"]
    assert (at_billing["group"], at_billing["state"], at_billing["times"]) == ("billing", "in flight", 1)
    assert (rows["delivered"]["level"], rows["delivered"]["lateness_us"]) == (1, 0)
    now_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    assert rows["timed"]["due_ms"] == now_ms + 3_600_000


async def test_pages_of_any_size_have_the_same_messages_newest_first(api: Api) -> None:
    for number in range(4):
        await api.send(message_id=f"stored-{number}")
        await api.send(message_id=f"timed-{number}", delay_ms=3_600_000)
        await api.send(message_id=f"level-{number}", delay_level=2)
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    await api.ok("POST", "/v1/clock/advance", {"by": "2s"})
    rows = await listed(api)
    whole = [one["message_id"] for one in rows]
    assert [one for one in whole if not one.startswith("level")] == [
        f"{kind}-{number}" for number in (3, 2, 1, 0) for kind in ("timed", "stored")
    ]
    times = [one["store_ms"] for one in rows]
    assert (times, len(set(whole))) == (sorted(times, reverse=True), 12)
    for size in (1, 2, 3, 5):
        assert (size, await ids(api, size=size)) == (size, whole)


async def test_messages_are_found_by_content_and_by_their_first_topic(api: Api) -> None:
    receipt = await send_and_take(api, "one", body="blue shoes", tag="new", keys=["7", "x"])
    await api.send(message_id="two", body="red shoes", tag="old", keys=["77"], delay_level=3)
    await api.send(message_id="three", topic="bills", body="red hat", properties={"colour": "crimson"})
    await api.send(message_id="four", topic="bills", body="later", delay_ms=60_000, tag="timed")
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": [receipt], "delay_level": -1})
    assert await ids(api) == ["one", "four", "three", "two"]
    for query, found in {
        "topic=orders": ["one", "two"],
        "topic=%25DLQ%25billing": ["one"],
        "topic=none": [],
        "tag=new": ["one"],
        "tag=timed": ["four"],
        "key=7": ["one"],
        "text=red": ["three", "two"],
        "text=crimson&topic=bills": ["three"],
        "state=dead&topic=orders": ["one"],
        "state=dead&topic=bills": [],
    }.items():
        assert (query, await ids(api, f"&{query}")) == (query, found)
    last = (await api.ok("GET", "/v1/messages/three"))["records"][0]["log_offset"]
    assert await ids(api, f"&after={last}") == ["one"]


async def test_a_message_that_shares_a_key_does_not_hide_another(api: Api) -> None:
    await api.send(message_id="order-7", delay_level=18)
    await api.send(message_id="other", keys=["order-7"])
    assert set(await ids(api, "&state=pending")) == {"order-7"}
    assert await ids(api, size=1) == ["other", "order-7"]


async def test_a_search_without_time_goes_on_page_by_page(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await api.send(message_id=f"sent-{number}", tag="a")
        await api.send(message_id=f"timed-{number}", tag="a", delay_ms=60_000)
        await api.send(message_id=f"other-{number}")
    monkeypatch.setattr(message_list, "BUDGET_US", 0)
    monkeypatch.setattr(message_list, "_STEPS", (1, 1))
    assert sorted(await ids(api, "&tag=a", size=1)) == [
        *(f"sent-{number}" for number in range(3)),
        *(f"timed-{number}" for number in range(3)),
    ]


async def test_a_page_of_long_properties_ends_early(api: Api) -> None:
    for number in range(45):
        await api.send(message_id=f"{number}", properties={"long": "x" * 30_000})
    page = await api.ok("GET", "/v1/message-states?max=200")
    assert 30 <= len(page["messages"]) < 45
    assert len(await ids(api, size=200)) == 45


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("max=0", "max"),
        ("max=201", "max"),
        ("state=sleeping", "state"),
        ("before=7", "before"),
        ("topic=a.b", "topic"),
        ("text=", "text"),
    ],
)
async def test_bad_searches_are_refused_by_field(api: Api, query: str, field: str) -> None:
    problem = await api.refused(400, "GET", f"/v1/message-states?{query}")
    assert "an object" not in problem["detail"]
    assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", field)


async def test_the_newest_of_many_waiting_messages_are_found(api: Api) -> None:
    for _ in range(3):
        many = [{"body": "many", "delay_ms": 3_600_000}] * 400
        await api.ok("POST", "/v1/topics/orders/messages/batch", {"messages": many})
    await api.send(message_id="last", delay_ms=3_600_000)
    assert (await api.ok("GET", "/v1/records?max=1"))["records"][0]["message_id"] == "last"
    assert (await api.ok("GET", "/v1/records?text=last"))["records"][0]["message_id"] == "last"
    assert (await api.ok("GET", "/v1/message-states?max=1"))["messages"][0]["message_id"] == "last"
    assert len(set(await ids(api, size=200))) == 1_201
