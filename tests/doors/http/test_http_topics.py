"""Topics, groups and waiting for messages over HTTP."""

import asyncio

import pytest

from tests.support.api import Api, running_api


async def test_a_topic_is_created_changed_and_shown(api: Api) -> None:
    made = await api.call("PUT", "/v1/topics/orders", {"read_queues": 2, "write_queues": 1, "perm": "rwi"})
    assert (made.status, made.body["perm"], made.body["system"]) == (201, "rwi", False)
    assert made.body == await api.ok("GET", "/v1/topics/orders")
    changed = await api.call("PUT", "/v1/topics/orders", {"write_queues": 4, "perm": "rw"})
    assert (changed.status, changed.body["read_queues"], changed.body["perm"]) == (200, 2, "rw")
    assert (await api.ok("PUT", "/v1/topics/orders")) == changed.body
    await api.ok("PUT", "/v1/topics/orders", {"read_queues": 4})
    await api.send(queue_id=3)
    queues = (await api.ok("GET", "/v1/topics/orders"))["queues"]
    assert [(one["queue_id"], one["min_offset"], one["max_offset"]) for one in queues][2:] == [
        (2, 0, 0),
        (3, 0, 1),
    ]
    topics = (await api.ok("GET", "/v1/topics"))["topics"]
    assert [(topic["name"], topic["system"]) for topic in topics] == [
        ("DefaultCluster", True),
        ("SCHEDULE_TOPIC_XXXX", True),
        ("TBW102", True),
        ("broker-a", True),
        ("orders", False),
        ("rmq_sys_wheel_timer", True),
    ]
    assert (await api.refused(404, "GET", "/v1/topics/none"))["type"] == "/problems/topic-not-found"
    assert (await api.refused(403, "PUT", "/v1/topics/TBW102"))["type"] == "/problems/no-permission"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("topics/orders", {"read_queues": 0}, "read_queues"),
        ("topics/orders", {"write_queues": 1025}, "write_queues"),
        ("topics/orders", {"perm": "x"}, "perm"),
        ("topics/orders", {"order": True}, "order"),
        (f"topics/{'a' * 128}", {}, "topic"),
        ("topics/a%2Fb", {}, "topic"),
        ("groups/billing", {"max_retries": 1001}, "max_retries"),
        ("groups/billing", {"retry_queues": 65}, "retry_queues"),
        ("groups/billing", {"priority_factor": 101}, "priority_factor"),
        ("groups/a.b", {}, "group"),
        (f"groups/{'a' * 256}", {}, "group"),
    ],
)
async def test_values_beyond_limits_are_refused_by_field(
    api: Api, path: str, body: dict[str, object], field: str
) -> None:
    problem = await api.refused(400, "PUT", f"/v1/{path}", body)
    assert (problem["type"], problem["field"]) == ("/problems/invalid-argument", field)


async def test_names_with_percent_signs_are_encoded_in_paths(api: Api) -> None:
    await api.ok("PUT", "/v1/groups/g")
    await api.send("%25RETRY%25g")
    assert (await api.ok("GET", "/v1/topics/%25RETRY%25g"))["name"] == "%RETRY%g"
    # "%41" is literal here and does not stand for "A".
    made = await api.call("PUT", "/v1/topics/%25RETRY%2541", {})
    assert (made.status, made.body["name"]) == (201, "%RETRY%41")
    assert (await api.ok("GET", "/v1/topics/%25RETRY%2541"))["name"] == "%RETRY%41"
    assert (await api.ok("PUT", "/v1/groups/a%7Cb"))["name"] == "a|b"
    assert (await api.ok("GET", "/v1/%74opics/%25RETRY%25g"))["name"] == "%RETRY%g"


async def test_a_group_is_created_changed_and_shown_with_its_lag(api: Api) -> None:
    made = await api.call("PUT", "/v1/groups/billing", {"max_retries": 3, "retry_queues": 2})
    assert made.status == 201
    assert made.body == {
        "name": "billing",
        "max_retries": 3,
        "retry_queues": 2,
        "fifo": False,
        "priority_factor": 100,
        "lite_parent": None,
        "lag": 0,
        "in_flight": 0,
        "retrying": 0,
        "dead_letters": 0,
        "members": [],
        "queues": [],
    }
    changed = await api.call("PUT", "/v1/groups/billing", {"max_retries": 5})
    assert (changed.status, changed.body["max_retries"], changed.body["retry_queues"]) == (200, 5, 2)
    changed = await api.call("PUT", "/v1/groups/billing", {"retry_queues": 4})
    assert (changed.body["max_retries"], changed.body["retry_queues"]) == (5, 4)
    assert (await api.ok("PUT", "/v1/groups/billing")) == changed.body
    made = await api.call("PUT", "/v1/groups/others")
    assert (made.status, made.body["max_retries"], made.body["retry_queues"]) == (201, 16, 1)
    await api.ok("DELETE", "/v1/groups/others")
    for _ in range(3):
        await api.send(queue_id=1)
    (message,) = await api.receive(max=1)
    group = await api.ok("GET", "/v1/groups/billing")
    assert (group["lag"], group["in_flight"]) == (3, 1)
    assert [one["queue_id"] for one in group["queues"]] == [0, 1, 2, 3]
    assert group["queues"][1] == {
        "topic": "orders",
        "queue_id": 1,
        "lite_topic": None,
        "committed_offset": 0,
        "max_offset": 3,
        "lag": 3,
        "in_flight": 1,
        "retrying": 0,
    }
    await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [message["receipt"]]})
    group = await api.ok("GET", "/v1/groups/billing")
    assert (group["lag"], group["in_flight"], group["queues"][1]["committed_offset"]) == (2, 0, 1)
    assert [one["name"] for one in (await api.ok("GET", "/v1/groups"))["groups"]] == ["billing"]
    assert (await api.refused(404, "GET", "/v1/groups/none"))["type"] == "/problems/group-not-found"


async def test_wait_ends_when_the_topic_has_enough_messages(api: Api) -> None:
    path = "/v1/topics/orders/wait"

    async def waited(**fields: int) -> tuple[int, bool]:
        found = await api.ok("POST", path, fields)
        return found["delivered"], found["reached"]

    assert await waited(delivered=1, timeout_ms=0) == (0, False)
    waiter = asyncio.create_task(waited(delivered=2, timeout_ms=30_000))
    await api.send()
    assert not waiter.done()
    await api.send(delay_level=1)
    await api.ok("POST", "/v1/clock/next")
    assert await waiter == (2, True)
    assert await waited(delivered=1) == (2, True)
    await api.ok("POST", "/v1/reset", {"topic": "orders"})
    assert await waited(delivered=1, timeout_ms=1) == (0, False)
    for body, field in (
        ({}, "delivered"),
        ({"delivered": 0}, "delivered"),
        ({"delivered": 1, "timeout_ms": 30_001}, "timeout_ms"),
    ):
        assert (await api.refused(400, "POST", path, body))["field"] == field


async def test_wait_is_bounded_and_needs_a_possible_topic() -> None:
    async with running_api(max_wait_us=20_000, auto_create_topics=False) as api:
        path = "/v1/topics/orders/wait"
        problem = await api.refused(400, "POST", path, {"delivered": 1, "timeout_ms": 21})
        assert problem["allowed"] == "a whole number from 0 to 20, the most that the setting max_wait allows"
        assert (await api.refused(404, "POST", path, {"delivered": 1}))["title"] == "Topic not found"
        await api.ok("PUT", "/v1/topics/orders")
        # The limit also bounds the default of five seconds.
        assert (await api.ok("POST", path, {"delivered": 1}))["reached"] is False


async def test_topics_and_groups_are_searched_page_by_page(api: Api) -> None:
    for number in range(5):
        await api.ok("PUT", f"/v1/topics/Orders-{number}")
        await api.ok("PUT", f"/v1/groups/billing-{number}")
    await api.ok("PUT", "/v1/topics/bills")
    await api.ok("PUT", "/v1/topics/%25RETRY%25orders")
    for path, kind in (("topics?user=true&search=oRDER&", "topics"), ("groups?search=ILL&", "groups")):
        names: list[str] = []
        sizes, after = [], ""
        while True:
            page = await api.ok("GET", f"/v1/{path}max=2{after}")
            names += [one["name"] for one in page[kind]]
            sizes.append((len(page[kind]), page["count"]))
            if page["next_after"] is None:
                break
            after = f"&after={page['next_after']}"
        assert [name[-2:] for name in names] == ["-0", "-1", "-2", "-3", "-4"]
        assert sizes == [(2, 5), (2, 5), (1, 5)]
    assert (await api.ok("GET", "/v1/topics?search=none"))["topics"] == []
    await api.refused(400, "GET", "/v1/topics?max=0")


async def test_the_groups_of_a_topic_are_listed(api: Api) -> None:
    await api.send()
    await api.receive()
    await api.ok("PUT", "/v1/groups/shipping")
    assert [one["name"] for one in (await api.ok("GET", "/v1/groups?topic=orders"))["groups"]] == ["billing"]
    assert (await api.ok("GET", "/v1/groups?topic=bills"))["groups"] == []
