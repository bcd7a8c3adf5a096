"""The stream of events, the search through records, and actions on all pending messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, StreamReader

from tests.support.api import Api, Json, running_api
from tests.support.patience import PATIENCE_S


class Stream:
    """Reads server-sent events."""

    def __init__(self, content: StreamReader) -> None:
        self._content = content

    async def next(self, kind: str) -> tuple[str, Json]:
        """Return the id and the data of the next event of this kind."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                fields: dict[str, str] = {}
                while line := (await self._content.readline()).decode().rstrip("\n"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                if fields.get("event") == kind:
                    return fields["id"], json.loads(fields["data"])
                assert fields, "the stream ended"

    async def state_with(self, holds: Callable[[Json], bool] = lambda _state: True, **wanted: Any) -> Json:
        """Return the next state that has these values and for which ``holds`` is true."""
        while True:
            _, state = await self.next("state")
            if {name: state[name] for name in wanted} == wanted and holds(state):
                return state


@asynccontextmanager
async def streaming(api: Api, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    async with (
        ClientSession(read_bufsize=1 << 20) as session,
        session.get(f"{api.emulator.url}/v1/stream{query}", headers=headers) as response,
    ):
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        yield Stream(response.content)
    live = api.emulator.broker.live
    async with asyncio.timeout(PATIENCE_S):
        while live.readers:  # otherwise another reader would get the previous look
            await api.ok("GET", "/healthz")


def lane(state: Json, level: int | None) -> Json:
    [found] = [one for one in state["lanes"] if one["level"] == level]
    return found


async def test_stream_reports_pending_messages_arrivals_and_lateness(api: Api) -> None:
    async with streaming(api) as stream:
        state = await stream.state_with(pending=0)
        assert (state["mode"], state["rate"], state["next_due"], len(state["lanes"])) == (
            "manual",
            0,
            None,
            19,
        )
        sent = await api.send(delay_level=5, tag="new", keys=["7"], body="order 7")
        await api.send(delay_level=5)
        timed = await api.send(delay_ms=90_000, body="later")
        curves = {
            5: [[sent["due_ms"], 1], [sent["due_ms"], 2]],
            None: [[timed["due_ms"] // 1000 * 1000, 1]],
        }
        # If a look happens during a send, another look follows.
        state = await stream.state_with(
            lambda state: {level: lane(state, level)["curve"] for level in curves} == curves, pending=3
        )
        level = lane(state, 5)
        assert (level["pending"], level["next_due_ms"], level["oldest_overdue_ms"]) == (
            2,
            sent["due_ms"],
            None,
        )
        assert (state["next_due"]["instant_ms"], state["next_due"]["levels"]) == (sent["due_ms"], [5])
        assert state["next_due"]["record"]["message_id"] == sent["message_id"]
        await api.ok("POST", "/v1/clock/advance", {"by": "2m"})
        found: dict[str, Json] = {}
        while sent["message_id"] not in found:
            _, arrivals = await stream.next("arrivals")
            found = {one["message_id"]: one for one in arrivals["records"] if one["kind"] == "delivered"}
        one = found[sent["message_id"]]
        assert (one["level"], one["lateness_us"], one["tag"], one["keys"]) == (5, 0, "new", ["7"])
        assert (one["topic"], one["preview"], one["size"]) == ("orders", "'order 7'", 7)
        state = await stream.state_with(lambda state: state["lateness"]["in_all"]["count"] == 3, pending=0)
        assert (lane(state, 5)["delivered"], lane(state, None)["delivered"], lane(state, 5)["curve"]) == (
            2,
            1,
            [],
        )
        assert state["lateness"]["in_all"] == {
            **dict.fromkeys(("p50_us", "p99_us", "max_us"), 0),
            "count": 3,
            "level": None,
            "age_s": None,
        }
        assert [one["level"] for one in state["lateness"]["by_level"]] == [0, 5]


@pytest.mark.parametrize(
    ("level", "delay", "rule"),
    [(3, {"delay_level": 3}, {"level": 3}), (None, {"delay_ms": 10_000}, {"topic": "orders"})],
)
async def test_messages_held_by_a_fault_are_overdue_in_their_lane(
    api: Api, level: int | None, delay: Json, rule: Json
) -> None:
    await api.ok("POST", "/v1/faults", {"do": "hold", "name": "jam", **rule})
    first = await api.send(**delay)
    await api.send(**delay)
    await api.ok("POST", "/v1/clock/advance", {"by": "30s"})
    third = await api.send(**delay)
    async with streaming(api) as stream:
        state = await stream.state_with(pending=3)
        held = lane(state, level)
        assert (held["pending"], held["oldest_overdue_ms"], held["next_due_ms"]) == (
            3,
            first["due_ms"],
            third["due_ms"],
        )
        assert held["curve"][0] == [first["due_ms"], 2]
        assert held["curve"][-1][1] == 3
        by_jam = [{"fault": "jam", "count": 2, "oldest_due_ms": first["due_ms"]}]
        assert held["held"] == by_jam
        levels = await api.ok("GET", "/v1/levels")
        assert (levels["timed"] if level is None else levels["levels"][level - 1])["held"] == by_jam
        lane_of = "timed=true" if level is None else f"level={level}"
        pending = (await api.ok("GET", f"/v1/delayed?{lane_of}"))["messages"]
        assert sorted(str(one["fault"]) for one in pending) == ["None", "jam", "jam"]
        await api.ok("DELETE", "/v1/faults/jam")
        state = await stream.state_with(pending=1)
        assert (lane(state, level)["pending"], lane(state, level)["oldest_overdue_ms"]) == (1, None)


async def test_a_reconnecting_reader_resumes_where_it_was(api: Api) -> None:
    await api.send(body="before")
    async with streaming(api) as stream:
        number, arrivals = await stream.next("arrivals")
        assert ([one["preview"] for one in arrivals["records"]], arrivals["missed"]) == (["'before'"], 0)
    await api.send(body="meanwhile")
    async with streaming(api, **{"Last-Event-ID": number}) as stream:
        _, arrivals = await stream.next("arrivals")
        assert ([one["preview"] for one in arrivals["records"]], arrivals["missed"]) == (["'meanwhile'"], 0)
    many = [{"body": "x"}] * 60
    await api.ok("POST", "/v1/topics/orders/messages/batch", {"messages": many})
    async with streaming(api, f"?after={number}") as stream:
        _, arrivals = await stream.next("arrivals")
        assert (len(arrivals["records"]), arrivals["missed"]) == (50, 11)
    async with streaming(api, **{"Last-Event-ID": "999999"}) as stream:  # the broker has restarted since
        _, arrivals = await stream.next("arrivals")
        assert (len(arrivals["records"]), arrivals["missed"]) == (50, 0)


async def test_stream_costs_nothing_without_readers_and_ends_at_a_stop() -> None:
    async with running_api() as api:
        live = api.emulator.broker.live
        async with streaming(api) as stream:
            await stream.next("state")
            assert live.readers == 1
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "live"]
        async with streaming(api) as stream:
            await stream.next("state")
            live.close()
            with pytest.raises(AssertionError):
                await stream.next("state")


async def test_the_stream_needs_the_token() -> None:
    async with running_api(token="s3cret") as api:  # noqa: S106 - guards nothing
        assert (await api.call("GET", "/v1/stream")).status == 401
        async with streaming(api, Authorization="Bearer s3cret") as stream:
            await stream.next("state")


async def test_records_are_found_by_topic_tag_key_and_text(api: Api) -> None:
    await api.send(topic="orders", body="blue shoes", tag="new", keys=["7", "x"])
    await api.send(topic="orders", body="red shoes", tag="old", keys=["77"], delay_level=3)
    await api.send(topic="bills", body="red hat", properties={"colour": "crimson"})
    last = await api.send(topic="bills", body="later", delay_ms=60_000, tag="timed")

    async def found(query: str) -> list[str]:
        answer = await api.ok("GET", f"/v1/records?{query}")
        assert answer["next_before"] is None
        return [one["preview"] for one in answer["records"]]

    assert await found("") == ["'later'", "'red hat'", "'red shoes'", "'blue shoes'"]
    assert await found("topic=orders") == ["'red shoes'", "'blue shoes'"]
    assert await found("topic=none") == []
    assert await found("tag=new") == ["'blue shoes'"]
    assert await found("tag=timed") == ["'later'"]
    assert await found("key=7") == ["'blue shoes'"]
    assert await found("text=red") == ["'red hat'", "'red shoes'"]
    assert await found("text=crimson&topic=bills") == ["'red hat'"]
    assert await found(f"text={last['message_id']}") == ["'later'"]
    assert await found("tag=ne") == []
    first = await api.ok("GET", "/v1/records?max=1&topic=orders")
    rest = await api.ok("GET", f"/v1/records?topic=orders&before={first['next_before']}")
    assert [one["preview"] for one in rest["records"]] == ["'blue shoes'"]
    newest = first["records"][0]["log_offset"]
    assert [one["preview"] for one in (await api.ok("GET", f"/v1/records?after={newest}"))["records"]] == [
        "'red hat'"
    ]


async def test_newest_first_includes_messages_outside_the_store(api: Api) -> None:
    for number in range(3):
        await api.send(body=f"stored {number}")
        await api.send(body=f"timed {number}", delay_ms=3_600_000)
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    expected = [f"'{kind} {number}'" for number in (2, 1, 0) for kind in ("timed", "stored")]
    for size in (1, 2, 100):
        found, answer = [], await api.ok("GET", f"/v1/records?max={size}")
        while answer["next_before"] is not None:
            found += answer["records"]
            answer = await api.ok("GET", f"/v1/records?max={size}&before={answer['next_before']}")
        assert [one["preview"] for one in [*found, *answer["records"]]] == expected


async def test_all_pending_messages_are_cancelled_or_delivered_at_once(api: Api) -> None:
    delays: list[Json] = [{"delay_level": 5}, {"delay_level": 6}, {"delay_ms": 60_000}]
    for topic in ("orders", "bills"):
        for delay in delays:
            await api.send(topic=topic, **delay)
    assert await api.ok("POST", "/v1/deliveries", {"level": 5, "topic": "orders"}) == {"delivered": 1}
    assert len(await api.receive()) == 1
    timed = (await api.ok("GET", "/v1/delayed?timed=true"))["messages"]
    assert [one["level"] for one in timed] == [None, None]
    assert await api.ok("DELETE", "/v1/delayed?timed=true") == {"cancelled": 2}
    assert await api.ok("DELETE", "/v1/delayed?level=6") == {"cancelled": 2}
    assert await api.ok("POST", "/v1/deliveries") == {"delivered": 1}
    assert await api.ok("DELETE", "/v1/delayed") == {"cancelled": 0}
    await api.refused(404, "DELETE", "/v1/delayed?topic=none")


async def test_clock_shows_its_rate_and_its_lead(api: Api) -> None:
    before = await api.ok("GET", "/v1/clock")
    await api.ok("POST", "/v1/clock/advance", {"by": "1h"})
    clock = await api.ok("GET", "/v1/clock")
    assert clock["rate"] == 0
    assert 3_600_000 - PATIENCE_S * 1_000 < clock["ahead_ms"] - before["ahead_ms"] <= 3_600_000


async def test_page_has_a_content_policy_and_an_etag(api: Api) -> None:
    answer = await api.call("GET", "/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    again = await api.call("GET", "/", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    script = await api.call("GET", "/console/main.js")
    assert (script.status, script.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    for path in ("/console/__init__.py", "/console/none.js", "/console/..%2fclock.py", "/console/"):
        await api.refused(404, "GET", path)
    await api.refused(405, "POST", "/")
