"""Queue locks by 41 and 42."""

import json
from typing import Any

import pytest

from tests.doors.remoting.consuming import LOCK, UNLOCK
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient, running_remoting


def queue(queue_id: int, topic: str = TOPIC) -> dict[str, Any]:
    return {"brokerName": "broker-a", "queueId": queue_id, "topic": topic}


def wish(client_id: str, *queues: dict[str, Any], group: str = GROUP) -> bytes:
    return json.dumps(
        {"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}
    ).encode()


async def locked(client: RemotingClient, *wanted: Any, **more: Any) -> Any:
    answer = await client.ok(LOCK, body=wish(*wanted, **more))
    return json.loads(answer.body)["lockOKMQSet"]


async def test_a_queue_is_locked_for_one_client_of_a_group() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        assert await locked(client, "one", queue(0), queue(1)) == [queue(0), queue(1)]
        assert await locked(client, "two", queue(1), queue(2), queue(1, "other")) == [
            queue(2),
            queue(1, "other"),
        ]
        assert await locked(client, "two", queue(1), group="others") == [queue(1)]
        assert await locked(client, "one", queue(2), queue(0)) == [queue(0)]
        assert await locked(client, "one") == []


async def test_only_the_owner_unlocks() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await locked(client, "one", queue(0))
        answer = await client.ok(UNLOCK, body=wish("two", queue(0), queue(3)))
        assert (answer.body, answer.ext) == (b"", {})
        assert await locked(client, "two", queue(0)) == []
        await client.ok(UNLOCK, body=wish("one", queue(0)))
        assert await locked(client, "two", queue(0)) == [queue(0)]


async def test_a_lock_outlives_its_connection() -> None:
    async with running_remoting() as remoting:
        async with remoting.another() as client:
            await locked(client, "one", queue(0))
        assert await locked(remoting.client, "two", queue(0)) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "clientId"),
        (b'{"clientId":"a"}', "consumerGroup"),
        (wish("a", {"queueId": 0}), "topic"),
        (wish("a", queue("x")), "queueId"),  # type: ignore[arg-type]
        (b'{"clientId":"a","consumerGroup":"g","mqSet":{"a":1}}', "mqSet"),
    ],
)
async def test_lock_request_without_group_or_client_is_refused(body: bytes, field: str) -> None:
    async with running_remoting() as remoting:
        for code in (LOCK, UNLOCK):
            answer = await remoting.client.call(code, body=body)
            assert answer.code == 1
            assert str(answer.remark).startswith(f"{field} is ")
