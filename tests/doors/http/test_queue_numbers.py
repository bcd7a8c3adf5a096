"""Queues of a cluster's largest topics, whose numbers exceed those of a single broker."""

from pathlib import Path
from typing import Any

import pytest

from mocketmq.message.names import MAX_QUEUES
from tests.support.api import Api, running_api
from tests.support.brokers import TOPIC

BROKERS = 2
LAST = BROKERS * MAX_QUEUES - 1


@pytest.mark.parametrize("scheme", ["directories", "wheel", "slots", "sorted"])
async def test_the_last_queue_takes_plain_and_delayed_messages(tmp_path: Path, scheme: str) -> None:
    changed: dict[str, Any] = {"data": str(tmp_path), "brokers": BROKERS, "timed_scheme": scheme}
    async with running_api(**changed) as api:
        await api.ok("PUT", f"/v1/topics/{TOPIC}", {"read_queues": MAX_QUEUES, "write_queues": MAX_QUEUES})
        await api.send(TOPIC, body="plain", queue_id=LAST)
        await api.send(TOPIC, body="level", queue_id=LAST, delay_level=1)
        await api.send(TOPIC, body="timed", queue_id=LAST, delay_ms=1_000)
    async with running_api(**changed) as api:
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
        received = await api.receive(TOPIC)
        assert sorted((each["body"], each["queue_id"]) for each in received) == [
            ("level", LAST),
            ("plain", LAST),
            ("timed", LAST),
        ]
        shown = await api.ok("GET", f"/v1/topics/{TOPIC}/queues/{LAST}/messages?offset=0")
        assert len(shown["messages"]) == 3


async def test_a_number_beyond_the_topic_is_refused_by_name(api: Api) -> None:
    problem = await api.refused(400, "POST", f"/v1/topics/{TOPIC}/messages", {"body": "x", "queue_id": 8_192})
    assert "queue_id is 8192; allowed: a whole number from 0 to 8191" in problem["detail"]
