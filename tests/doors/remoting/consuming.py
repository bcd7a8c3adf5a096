"""Requests of consumers, and helpers that tests check them with."""

import json
from typing import Any

from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_records
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient

PULL, LITE_PULL = 11, 361
QUERY_OFFSET, UPDATE_OFFSET, SEARCH_OFFSET, MAX_OFFSET, MIN_OFFSET, EARLIEST = 14, 15, 29, 30, 31, 32
HEART_BEAT, UNREGISTER, SEND_BACK, CONSUMERS, CHECK_CONFIG = 34, 35, 36, 38, 46
MEMBERS_CHANGED, RESET_OFFSET, RESET_CLIENT = 40, 222, 220
LOCK, UNLOCK = 41, 42

RETRY = f"%RETRY%{GROUP}"
DLQ = f"%DLQ%{GROUP}"
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
Ext = dict[str, str]


def subscription(topic: str = TOPIC, expression: str = "*", version: int = 1, **more: Any) -> Any:
    """Return a group's subscription to a topic, as a Java client sends it."""
    return {
        "topic": topic,
        "subString": expression,
        "tagsSet": [],
        "codeSet": [],
        "subVersion": version,
        "classFilterMode": False,
        "expressionType": "TAG",
        **more,
    }


def consumer(*subscriptions: Any, group: str = GROUP, **more: Any) -> Any:
    """Return the heartbeat entry of a consumer's group, which by default subscribes to the usual topic."""
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": list(subscriptions or [subscription()]),
        **more,
    }


def beat(*consumers: Any, client: str = "one", producers: tuple[str, ...] = (), **more: Any) -> bytes:
    """Return the body of a heartbeat."""
    return json.dumps(
        {
            "clientID": client,
            "producerDataSet": [{"groupName": name} for name in producers],
            "consumerDataSet": consumers,
            **more,
        }
    ).encode()


async def join(client: RemotingClient, name: str = "one", **more: Any) -> None:
    """Join the usual group, and wait for the notification that all members get."""
    await client.ok(HEART_BEAT, body=beat(consumer(**more), client=name))
    assert (await client.push()).code == MEMBERS_CHANGED


async def members(client: RemotingClient, group: str = GROUP) -> list[str]:
    """Return the client ids of a group, or an empty list if it has no clients."""
    answer = await client.call(CONSUMERS, {"consumerGroup": group})
    if answer.code:
        assert (answer.code, answer.remark) == (1, f"no consumer for this group, {group}")
        return []
    found: list[str] = json.loads(answer.body)["consumerIdList"]
    assert found
    return found


def pull_of(offset: int = 0, flags: int = SUBSCRIPTION, **fields: object) -> Ext:
    """Return the ext fields of a pull; ``fields`` have wire names, and None removes a field."""
    given = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*" if flags & SUBSCRIPTION else None,
        "subVersion": 0,
        **fields,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


async def pull(
    client: RemotingClient, offset: int = 0, flags: int = SUBSCRIPTION, **fields: object
) -> Command:
    """Pull, and return the answer."""
    return await client.call(PULL, pull_of(offset, flags, **fields))


def bodies(answer: Command) -> list[str]:
    """Return the bodies of the pulled messages."""
    return [record.body.decode() for record in decode_records(answer.body)]


def place(queue_id: int = 0, topic: str = TOPIC, group: str | None = GROUP, **more: object) -> Ext:
    """Return the ext fields of a queue, with the group unless that is None."""
    given = {"consumerGroup": group, "topic": topic, "queueId": queue_id, **more}
    return {name: str(value) for name, value in given.items() if value is not None}


async def committed(client: RemotingClient, queue_id: int = 0, **more: Any) -> int | None:
    """Return the committed offset, or None if the group has none and may choose."""
    answer = await client.call(QUERY_OFFSET, place(queue_id, **more))
    if answer.code == 22:
        assert answer.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return None
    assert answer.code == 0
    return int(answer.ext["offset"])


async def commit(client: RemotingClient, offset: int, queue_id: int = 0, **more: Any) -> None:
    """Commit a group's offset."""
    await client.ok(UPDATE_OFFSET, place(queue_id, commitOffset=offset, **more))
