"""Consume modes of groups, and the queues assigned to clients: 400, 401 and 402."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mocketmq.remoting.wire.command import Command
from tests.doors.remoting.consuming import HEART_BEAT, RETRY, beat, consumer, join
from tests.doors.remoting.producing import V2, header
from tests.support.brokers import GROUP, TOPIC, rows
from tests.support.remoting import Remoting, running_remoting

QUERY, SET, GET_ALL = 400, 401, 402


async def ready(remoting: Remoting) -> None:
    await remoting.broker.registry.topics.put(TOPIC, 4, 4, 6)
    await remoting.broker.registry.groups.put(GROUP, 16, 1)


def mode_of(**given: Any) -> bytes:
    body = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0, **given}
    return json.dumps(body).encode()


async def set_mode(remoting: Remoting, **given: Any) -> int:
    return (await remoting.client.call(SET, body=mode_of(**given))).code


async def assignment(remoting: Remoting, **given: Any) -> list[tuple[str, int]] | None:
    """Return the client's queues with their mode, or None if the answer has none."""
    body = {
        "clientId": "one",
        "consumerGroup": GROUP,
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": TOPIC,
        **given,
    }
    answer = json.loads((await remoting.client.ok(QUERY, body=json.dumps(body).encode())).body)
    if not answer:
        return None
    found = answer["messageQueueAssignments"]
    queues = [one["messageQueue"] for one in found]
    assert {(queue["brokerName"], queue["topic"]) for queue in queues} <= {("broker-a", body["topic"])}
    return [(one["mode"], one["messageQueue"]["queueId"]) for one in found]


async def test_members_divide_the_queues() -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await ready(remoting)
        await join(remoting.client, "one")
        assert await assignment(remoting) == [("PULL", 0), ("PULL", 1), ("PULL", 2), ("PULL", 3)]
        await other.ok(HEART_BEAT, body=beat(consumer(), client="two"))
        assert await assignment(remoting) == [("PULL", 0), ("PULL", 1)]
        assert await assignment(remoting, clientId="two") == [("PULL", 2), ("PULL", 3)]
        assert await assignment(remoting, strategyName="AVG_BY_CIRCLE") == [("PULL", 0), ("PULL", 2)]
        assert await assignment(remoting, clientId="three") == []


async def test_a_popping_client_gets_all_queues_as_one() -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        await join(remoting.client, "one")
        assert await set_mode(remoting) == 0
        assert await assignment(remoting) == [("POP", -1)]
        assert await set_mode(remoting, mode="PULL") == 0
        assert await assignment(remoting) == [("PULL", 0), ("PULL", 1), ("PULL", 2), ("PULL", 3)]


async def test_retries_are_always_pulled() -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        await join(remoting.client, "one")
        await set_mode(remoting)
        assert await assignment(remoting, topic=RETRY) == [("PULL", 0)]
        assert await set_mode(remoting, topic=RETRY) == 16


async def test_with_broadcasting_every_client_gets_every_queue() -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        assert await assignment(remoting, messageModel="BROADCASTING") == [("PULL", n) for n in range(4)]


@pytest.mark.parametrize("given", [{"topic": "nowhere"}, {"strategyName": "MACHINE_ROOM"}])
async def test_without_an_assignment_the_client_keeps_its_queues(given: dict[str, str]) -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        assert await assignment(remoting) is None  # the group has no clients
        await join(remoting.client, "one")
        assert await assignment(remoting, **given) is None


@pytest.mark.parametrize("model", [None, "EVERYBODY"])
async def test_an_unknown_message_model_is_refused(model: str | None) -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        body = {"consumerGroup": GROUP, "topic": TOPIC, "clientId": "one", "messageModel": model}
        answer = await remoting.client.call(QUERY, body=json.dumps(body).encode())
        assert answer.code == 1
        assert answer.remark == f"messageModel is '{model}'; allowed: BROADCASTING or CLUSTERING"


async def test_modes_survive_a_restart(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await ready(remoting)
        assert await set_mode(remoting, popShareQueueNum=2) == 0
        assert await set_mode(remoting, popShareQueueNum=3) == 0
        assert rows(tmp_path, "SELECT * FROM request_modes") == [
            {"topic": TOPIC, "group_name": GROUP, "mode": "POP", "share_queues": 3}
        ]
    async with running_remoting(data=str(tmp_path)) as remoting:
        await join(remoting.client, "one")
        assert await assignment(remoting) == [("POP", -1)]
        assert json.loads((await remoting.client.ok(GET_ALL)).body) == {
            "messageRequestModeMap": {
                TOPIC: {GROUP: {"consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 3, "topic": TOPIC}}
            }
        }


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"topic": "nowhere"}, 17),
        ({"topic": ""}, 1),
        ({"consumerGroup": "no group"}, 1),
        ({"mode": "PUSH"}, 1),
        ({"popShareQueueNum": "many"}, 1),
        ({"popShareQueueNum": 1 << 31}, 1),
    ],
)
async def test_invalid_mode_is_refused(given: dict[str, object], code: int) -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        assert await set_mode(remoting, **given) == code
        assert json.loads((await remoting.client.ok(GET_ALL)).body) == {"messageRequestModeMap": {}}


async def test_mode_outlives_its_topic_and_group_as_upstream() -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        await set_mode(remoting)
        await remoting.broker.reset.delete_topic(TOPIC)
        await remoting.broker.consuming_groups.delete(GROUP, clean_offsets=True)
        await ready(remoting)
        await join(remoting.client, "one")
        assert await assignment(remoting) == [("POP", -1)]


@pytest.mark.parametrize("number", [-(1 << 63) - 1, "-" + "9" * 4_300])
async def test_number_beyond_64_bits_fails_only_its_own_request(number: object) -> None:
    async with running_remoting() as remoting:
        await ready(remoting)
        answers = [remoting.client.expect(opaque) for opaque in (1, 2)]
        remoting.client.send(
            Command(code=SET, opaque=1, body=mode_of(popShareQueueNum=number)),
            Command(code=V2, opaque=2, ext=header(), body=b"of somebody else"),
        )
        refused, sent = await asyncio.gather(*answers)
        assert (refused.code, sent.code) == (1, 0)
        assert re.match("popShareQueueNum is .*; allowed: a whole number of 64 bits$", str(refused.remark)), (
            refused
        )


async def test_unknown_group_gets_no_mode() -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await remoting.broker.registry.topics.put(TOPIC, 4, 4, 6)
        assert await set_mode(remoting) == 26
