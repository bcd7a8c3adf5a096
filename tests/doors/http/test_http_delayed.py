"""The level table, pending messages and the clock over HTTP."""

import pytest

from tests.support.api import Api, running_api


async def test_the_level_table(api: Api) -> None:
    sent = await api.send(delay_level=3)
    levels = (await api.ok("GET", "/v1/levels"))["levels"]
    assert [level["level"] for level in levels] == list(range(1, 19))
    assert [levels[n]["delay"] for n in (0, 4, 16, 17)] == ["1s", "1m", "1h", "2h"]
    assert levels[2] == {
        "level": 3,
        "delay": "10s",
        "delay_ms": 10_000,
        "pending": 1,
        "delay_offset": 0,
        "max_offset": 1,
        "next_due_ms": sent["due_ms"],
        "oldest_overdue_ms": None,
        "held": [],
    }
    await api.ok("POST", "/v1/clock/next")
    level = (await api.ok("GET", "/v1/levels"))["levels"][2]
    assert (level["pending"], level["delay_offset"], level["next_due_ms"]) == (0, 1, None)


async def test_pending_messages_are_listed_by_page_topic_and_level(api: Api) -> None:
    first = await api.send(delay_level=1, queue_id=2)
    second = await api.send(topic="bills", delay_level=2)
    page = await api.ok("GET", "/v1/delayed?max=1")
    (shown,) = page["messages"]
    assert (shown["message_id"], shown["level"], shown["due_ms"]) == (first["message_id"], 1, first["due_ms"])
    assert (shown["real_topic"], shown["real_queue_id"]) == ("orders", 2)
    assert (shown["topic"], shown["queue_id"]) == ("SCHEDULE_TOPIC_XXXX", 0)
    rest = await api.ok("GET", f"/v1/delayed?after={page['next_after']}")
    assert ([one["message_id"] for one in rest["messages"]], rest["next_after"]) == (
        [second["message_id"]],
        None,
    )
    for query in ("topic=bills", "level=2"):
        found = (await api.ok("GET", f"/v1/delayed?{query}"))["messages"]
        assert [one["message_id"] for one in found] == [second["message_id"]]
    assert (await api.refused(404, "GET", "/v1/delayed?topic=none"))["title"] == "Topic not found"
    for query in ("level=0", "level=x", "after=-2", "max=0"):
        assert (await api.refused(400, "GET", f"/v1/delayed?{query}"))["field"] == query.partition("=")[0]


@pytest.mark.parametrize("scheme", ["directories", "wheel"])
async def test_large_bodies_end_a_page_of_pending_messages_early(scheme: str) -> None:
    mib = "x" * (1 << 20)
    async with running_api(timed_scheme=scheme) as api:
        await api.send(topic="bills", delay_ms=1_000)
        for _ in range(3):
            await api.send(body=mib, delay_level=1)
            await api.send(body=mib, delay_ms=1_000)
        await api.ok("POST", "/v1/faults", {"do": "hold", "topic": "orders"})
        await api.ok("POST", "/v1/clock/advance", {"by": "2s"})  # orders are held
        for _ in range(3):
            await api.send(body=mib, delay_level=9)
            await api.send(body=mib, delay_ms=60_000)
        for query, count in (("", 12), ("&level=9", 3), ("&level=1", 3), ("&timed=true", 6)):
            pages: list[list[str]] = []
            after: int | None = -1
            while after is not None:
                page = await api.ok("GET", f"/v1/delayed?topic=orders&after={after}&max=1000{query}")
                pages.append([one["message_id"] for one in page["messages"]])
                after = page["next_after"]
            found = [one for page in pages for one in page]
            assert (len(found), len({*found})) == (count, count)
            assert [len(page) for page in pages if page] == [4] * (count // 4) + [count % 4] * (count % 4 > 0)
        assert (await api.ok("DELETE", "/v1/delayed"))["cancelled"] == 12


async def test_a_pending_message_is_cancelled_or_delivered_by_hand(api: Api) -> None:
    cancelled, delivered = [await api.send(body=text, delay_level=9) for text in "ab"]
    shown = await api.ok("DELETE", f"/v1/delayed/{cancelled['message_id']}")
    assert (shown["message_id"], shown["body"], shown["level"]) == (cancelled["message_id"], "a", 9)
    shown = await api.ok("POST", f"/v1/delayed/{delivered['offset_message_id']}/deliver")
    assert shown["message_id"] == delivered["message_id"]
    assert [message["body"] for message in await api.receive()] == ["b"]
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1h"}))["fired"] == 0
    for method, path in (("DELETE", ""), ("POST", "/deliver")):
        problem = await api.refused(409, method, f"/v1/delayed/{cancelled['message_id']}{path}")
        assert problem["type"] == "/problems/not-pending"
        assert (await api.refused(404, method, f"/v1/delayed/none{path}"))["title"] == "Message not found"


async def test_clock_moves_by_a_duration_to_an_instant_and_to_the_next(api: Api) -> None:
    clock = await api.ok("GET", "/v1/clock")
    assert (clock["mode"], clock["next_due_ms"], clock["pending"]) == ("manual", None, 0)
    assert clock["now"].endswith("Z")
    start_ms = clock["now_ms"]
    await api.send(delay_level=1)
    await api.send(delay_level=3)
    moved = await api.ok("POST", "/v1/clock/next", {})
    assert moved == {
        "from_ms": start_ms,
        "now_ms": start_ms + 1_000,
        "fired": 1,
        "pending": 1,
        "next_due_ms": start_ms + 10_000,
    }
    assert (await api.ok("POST", "/v1/clock/to", {"instant_ms": start_ms + 9_999}))["fired"] == 0
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1ms"}))["fired"] == 1
    problem = await api.refused(409, "POST", "/v1/clock/next")
    assert problem["type"] == "/problems/clock"
    problem = await api.refused(409, "POST", "/v1/clock/to", {"instant_ms": start_ms})
    assert "can only move forward" in problem["detail"]
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "0"}))["now_ms"] == start_ms + 10_000


async def test_last_instant_of_the_clock_is_shown(api: Api) -> None:
    await api.ok("POST", "/v1/clock/to", {"instant_ms": 253_402_300_799_999})
    assert (await api.ok("GET", "/v1/clock"))["now"] == "9999-12-31T23:59:59.999Z"
    await api.refused(409, "POST", "/v1/clock/advance", {"by": "1s"})


@pytest.mark.parametrize("by", ["1h30m", "200ms", "1.5s", "90m", "2d3h4m5s6ms7us", "0.001ms", "9999d"])
async def test_valid_durations(api: Api, by: str) -> None:
    await api.ok("POST", "/v1/clock/advance", {"by": by})


@pytest.mark.parametrize("by", ["", "5", "-1s", "1 s", "1s1h", "0.0001ms", "1.5us", "36501d", "1s\n", "s"])
async def test_invalid_durations(api: Api, by: str) -> None:
    problem = await api.refused(400, "POST", "/v1/clock/advance", {"by": by})
    assert (problem["field"], "such as 200ms" in problem["allowed"]) == ("by", True)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("to", {"instant_ms": -1}, "instant_ms"),
        ("to", {"instant_ms": 253_402_300_800_000}, "instant_ms"),
        ("to", {}, "instant_ms"),
        ("advance", {}, "by"),
        ("next", {"by": "1s"}, "by"),
    ],
)
async def test_invalid_moves(api: Api, path: str, body: dict[str, object], field: str) -> None:
    assert (await api.refused(400, "POST", f"/v1/clock/{path}", body))["field"] == field


async def test_messages_with_an_absolute_due_time_are_listed_by_due_time(api: Api) -> None:
    await api.send(body="level", delay_level=1)
    for body, delay_ms in (("third", 90_000), ("held", 1_000), ("second", 60_000)):
        await api.send(body=body, delay_ms=delay_ms)
    await api.ok("POST", "/v1/faults", {"do": "hold", "topic": "orders"})
    await api.ok("POST", "/v1/clock/advance", {"by": "2s"})
    by_due = await api.ok("GET", "/v1/timed")
    assert [one["body"] for one in by_due["messages"]] == ["held", "second", "third"]
    first = await api.ok("GET", "/v1/timed?max=2")
    assert [one["body"] for one in first["messages"]] == ["held", "second"]
