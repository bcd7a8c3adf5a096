"""Resets of a group's offsets by the JSON API."""

from typing import Any

import pytest

from tests.support.api import Api

S_MS = 1_000
RESET = "/v1/groups/billing/reset"


async def stepped(api: Api, count: int = 10, queue_id: int = 0) -> list[int]:
    """Send messages to a queue, one second apart, and return the times in milliseconds."""
    times = []
    for n in range(count):
        times.append((await api.ok("GET", "/v1/clock"))["now_ms"])
        await api.send(body=str(n), queue_id=queue_id)
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    return times


async def reset(api: Api, **where: Any) -> dict[int, tuple[int, int, int]]:
    """Reset a group; return committed offset, lag and number in flight by queue, from the answer."""
    group = await api.ok("POST", RESET, {"topic": "orders", **where})
    return {
        queue["queue_id"]: (queue["committed_offset"], queue["lag"], queue["in_flight"])
        for queue in group["queues"]
    }


def bodies(messages: list[Any]) -> list[str]:
    return [message["body"] for message in messages]


async def test_messages_in_flight_are_visible_again_and_their_receipts_invalid(api: Api) -> None:
    await stepped(api)
    first = await api.receive()
    assert await reset(api, queue_id=0, offset=4) == {0: (4, 6, 0), 1: (0, 0, 0), 2: (0, 0, 0), 3: (0, 0, 0)}
    spent = [message["receipt"] for message in first]
    assert (
        "is spent"
        in (await api.refused(409, "POST", "/v1/groups/billing/ack", {"receipts": spent}))["detail"]
    )
    again = await api.receive()
    assert bodies(again) == ["4", "5", "6", "7", "8", "9"]
    receipts = [message["receipt"] for message in again]
    assert (await api.ok("POST", "/v1/groups/billing/ack", {"receipts": receipts}))["settled"] == receipts


async def test_group_is_reset_to_start_end_or_instant(api: Api) -> None:
    times = await stepped(api, 4)
    await stepped(api, 2, queue_id=1)
    await api.receive()
    starts: list[dict[str, Any]] = [{}, {"to": "start"}, {"instant_ms": 0}, {"instant_ms": times[0]}]
    for start in starts:
        assert list((await reset(api, **start)).values())[:2] == [(0, 4, 0), (0, 2, 0)]
        assert len(await api.receive()) == 6
    assert list((await reset(api, to="end")).values())[:2] == [(4, 0, 0), (2, 0, 0)]
    assert await api.receive() == []
    assert (await reset(api, instant_ms=times[2]))[0] == (2, 2, 0)
    assert (await reset(api, instant_ms=times[2] + 1))[0] == (3, 1, 0)
    assert (await reset(api, instant_ms=times[3] + 100 * S_MS))[0] == (4, 0, 0)
    assert (await reset(api, queue_id=1))[0] == (4, 0, 0)
    assert bodies(await api.receive()) == ["0", "1"]


@pytest.mark.parametrize(
    ("where", "status", "detail"),
    [
        (
            {"to": "start", "offset": 1, "queue_id": 0},
            400,
            "offset is 1; allowed: no value, because to is given",
        ),
        ({"instant_ms": 5, "to": "end"}, 400, "instant_ms is 5; allowed: no value, because to is given"),
        ({"offset": 1}, 400, "offset is 1; allowed: only with a queue_id"),
        ({"offset": 2, "queue_id": 0}, 409, "Target offset 2 not in consume queue range [0-1]"),
        ({"to": "middle"}, 400, "to is 'middle'"),
        ({"queue_id": 9}, 404, "queue"),
        ({"topic": "nowhere"}, 404, "topic[nowhere] not exist"),
    ],
)
async def test_a_reset_is_refused(api: Api, where: dict[str, Any], status: int, detail: str) -> None:
    await stepped(api, 1)
    await api.receive()
    body = {"topic": "orders", **where}
    assert detail in (await api.refused(status, "POST", RESET, body))["detail"]
    assert (await api.ok("GET", "/v1/groups/billing"))["in_flight"] == 1


async def test_reset_creates_no_group(api: Api) -> None:
    await stepped(api, 1)
    problem = await api.refused(404, "POST", RESET, {"topic": "orders"})
    assert problem["type"] == "/problems/group-not-found"
