"""Steps of plays on a cluster of two brokers with a slave each. Bodies of messages are their numbers."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.cluster_side import A
from tests.differential.op import Op
from tests.differential.topics import ONE_QUEUE
from tests.doors.remoting import consuming
from tests.doors.remoting.producing import BORN_MS, joined

TOPIC, GROUP = "T~", "G~"
ID: Final = "id-one~"
"""Id of the client that is a member of the group."""


class Step(NamedTuple):
    """An operation at a broker or at a slave. The operation ``life`` ends or starts a broker."""

    place: str
    op: Op


Play = Sequence[Step]


def step(place: str, op: str, /, **args: Any) -> Step:
    return Step(place, Op(op, args))


def life(broker: str, change: str) -> Step:
    """Shut a broker down, lose it, let routes forget a lost one, or start it: see ``Cluster``."""
    return step(broker, "life", change=change)


def routes(topic: str = TOPIC) -> Play:
    """Ask the name server for the topic's route and for the cluster."""
    return (
        step(A, "ask", code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic}, client="ns"),
        step(A, "ask", code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={}, client="ns"),
    )


def put_topic(place: str, queues: int, perm: int = 6, topic: str = TOPIC) -> Step:
    """Create the topic at one broker, or change it there."""
    ext = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": str(perm)}
    return step(place, "change", code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ONE_QUEUE | ext)


def topic_config(place: str, topic: str = TOPIC, **more: str) -> Step:
    return step(place, "ask", code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": topic, **more})


def put_group(place: str, **config: Any) -> Step:
    body = json.dumps({"groupName": GROUP, **config})
    return step(place, "change", code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ext={}, body=body)


def send(place: str, number: int, queue_id: int, topic: str = TOPIC) -> Step:
    properties = {"UNIQ_KEY": f"7F0000010001{number:020X}~", "KEYS": f"key{number}", "TAGS": "A"}
    return step(
        place,
        "send",
        code=310,
        body=str(number),
        properties=joined(properties),
        topic=topic,
        producer_group="makers",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=BORN_MS + number,
        flag=0,
        reconsume_times=0,
        unit_mode=False,
        max_reconsume_times=None,
    )


def collect(*places: str, topic: str = TOPIC) -> Play:
    return [step(place, "collect", topic=topic) for place in places]


def join(*places: str) -> Play:
    """Let a client with a connection to each of these places be a member of the group."""
    beat = {"client_id": ID, "groups": {GROUP: {"topics": {TOPIC: {}}}}, "producers": ["makers"]}
    return [step(place, "heartbeat", client="one", **beat) for place in places]


def pull(place: str, offset: int, at: str = "min", flags: int = 0, **more: Any) -> Step:
    return step(
        place,
        "pull",
        topic=TOPIC,
        queue_id=0,
        at=at,
        offset=offset,
        flags=flags,
        consumerGroup=GROUP,
        subVersion=1,
        **more,
    )


def pulls(place: str) -> Play:
    """Pull all messages, then from the end and beyond it."""
    return (pull(place, 0), pull(place, 0, at="max"), pull(place, 5, at="max"))


def waiting_pull(place: str) -> Step:
    """Pull from the end, and wait."""
    return pull(place, 0, at="max", flags=consuming.SUSPEND, suspendTimeoutMillis=500)


def commit(place: str, offset: int, topic: str = TOPIC, queue_id: int = 0) -> Step:
    ext = consuming.place(queue_id, topic, GROUP, commitOffset=offset)
    return step(place, "change", code=consuming.UPDATE_OFFSET, ext=ext)


def committed(*places: str, topic: str = TOPIC, queue_id: int = 0) -> Play:
    return [step(place, "committed", group=GROUP, topic=topic, queue_id=queue_id) for place in places]


def ends(*places: str, topic: str = TOPIC, queue_id: int = 0) -> Play:
    return [
        step(place, "offset", code=code, topic=topic, queue_id=queue_id)
        for place in places
        for code in (consuming.MAX_OFFSET, consuming.MIN_OFFSET)
    ]


def lock(place: str, broker: str, client_id: str, code: int = consuming.LOCK) -> Step:
    return step(
        place, "lock", code=code, client_id=client_id, group=GROUP, queues=[(TOPIC, 0)], broker=broker
    )


def reset(place: str, timestamp_ms: int = 0) -> Step:
    ext = {"topic": TOPIC, "group": GROUP, "timestamp": str(timestamp_ms), "isForce": "true"}
    return step(place, "change", code=consuming.RESET_OFFSET, ext=ext)


def send_back(place: str, serial: int, level: int) -> Step:
    return step(place, "back", serial=str(serial), group=GROUP, level=level, most=16, version=409)
