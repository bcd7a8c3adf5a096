"""Plays on a cluster of two brokers with a slave each, and what each of them is about.

Apache's own integration tests start several brokers for such things. Bodies of messages are their numbers.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mocketmq.message.names import CLUSTER
from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.cluster_side import SLAVE_OF, A, B
from tests.differential.op import Op
from tests.differential.topics import ONE_QUEUE
from tests.doors.remoting import consuming
from tests.doors.remoting.producing import BORN_MS, joined

TOPIC, GROUP = "T~", "G~"
RETRIES, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
SLAVE_OF_A, SLAVE_OF_B = SLAVE_OF[A], SLAVE_OF[B]
ID = "id-one~"
"""Id of the client that is a member of the group."""


class Step(NamedTuple):
    """An operation at a broker or at a slave. The operation ``life`` ends or starts a broker."""

    place: str
    op: Op


Play = Sequence[Step]


def _step(place: str, op: str, /, **args: Any) -> Step:
    return Step(place, Op(op, args))


def _life(broker: str, change: str) -> Step:
    """Shut a broker down, lose it, let routes forget a lost one, or start it: see ``Cluster``."""
    return _step(broker, "life", change=change)


def _routes(topic: str = TOPIC) -> Play:
    """Ask the name server for the topic's route and for the cluster."""
    return (
        _step(A, "ask", code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic}, client="ns"),
        _step(A, "ask", code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={}, client="ns"),
    )


def _topic(place: str, queues: int, perm: int = 6, topic: str = TOPIC) -> Step:
    """Create the topic at one broker, or change it there."""
    ext = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": str(perm)}
    return _step(place, "change", code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ONE_QUEUE | ext)


def _topic_config(place: str, topic: str = TOPIC) -> Step:
    return _step(place, "ask", code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": topic})


def _group(place: str, **config: Any) -> Step:
    body = json.dumps({"groupName": GROUP, **config})
    return _step(place, "change", code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ext={}, body=body)


def _send(place: str, number: int, queue_id: int, topic: str = TOPIC) -> Step:
    properties = {"UNIQ_KEY": f"7F0000010001{number:020X}~", "KEYS": f"key{number}", "TAGS": "A"}
    return _step(
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


def _collect(*places: str, topic: str = TOPIC) -> Play:
    return [_step(place, "collect", topic=topic) for place in places]


def _join(*places: str) -> Play:
    """Let a client with a connection to each of these places be a member of the group."""
    beat = {"client_id": ID, "groups": {GROUP: {"topics": {TOPIC: {}}}}, "producers": ["makers"]}
    return [_step(place, "heartbeat", client="one", **beat) for place in places]


def _pull(place: str, offset: int, at: str = "min", flags: int = 0, **more: Any) -> Step:
    return _step(
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


def _pulls(place: str) -> Play:
    """Pull all messages, then from the end and beyond it."""
    return (_pull(place, 0), _pull(place, 0, at="max"), _pull(place, 5, at="max"))


def _waiting_pull(place: str) -> Step:
    """Pull from the end, and wait."""
    return _pull(place, 0, at="max", flags=consuming.SUSPEND, suspendTimeoutMillis=500)


def _commit(place: str, offset: int) -> Step:
    ext = consuming.place(0, TOPIC, GROUP, commitOffset=offset)
    return _step(place, "change", code=consuming.UPDATE_OFFSET, ext=ext)


def _committed(*places: str) -> Play:
    return [_step(place, "committed", group=GROUP, topic=TOPIC, queue_id=0) for place in places]


def _ends(*places: str) -> Play:
    return [
        _step(place, "offset", code=code, topic=TOPIC, queue_id=0)
        for place in places
        for code in (consuming.MAX_OFFSET, consuming.MIN_OFFSET)
    ]


def _lock(place: str, broker: str, client_id: str, code: int = consuming.LOCK) -> Step:
    return _step(
        place, "lock", code=code, client_id=client_id, group=GROUP, queues=[(TOPIC, 0)], broker=broker
    )


def _reset(place: str, timestamp_ms: int = 0) -> Step:
    ext = {"topic": TOPIC, "group": GROUP, "timestamp": str(timestamp_ms), "isForce": "true"}
    return _step(place, "change", code=consuming.RESET_OFFSET, ext=ext)


def _back(place: str, serial: int, level: int) -> Step:
    return _step(place, "back", serial=str(serial), group=GROUP, level=level, most=16, version=409)


def _refused_by_slave() -> Play:
    """Ask the slave of broker-b for what only a broker does."""
    return (_send(SLAVE_OF_B, 90, 0), _back(SLAVE_OF_B, 10, 1), _reset(SLAVE_OF_B))


OTHER: Final = "U~"
"""A topic that a play creates."""
PREPARED: Final[Play] = (
    _topic(A, 2),
    _topic(B, 3),
    _group(A, brokerId=1),
    _group(B, brokerId=1),
    _send(A, 1, 0),
    _send(A, 2, 1),
    _send(B, 10, 0),
    _send(B, 11, 0),
    _send(B, 12, 2),
    *_join(A, B),
    *_collect(A, B),
    _commit(B, 1),
    *_committed(A, B),
)
"""What each play begins with, which slaves have when they start: a group has consumed one of the messages.

It wants to pull from slaves.
"""

PLAYS: Final[Mapping[str, Play]] = {
    "topics at some brokers": [
        *_routes(),
        *_routes(OTHER),
        _topic(B, 3, topic=OTHER),
        *_routes(OTHER),
        _topic_config(A, OTHER),
        _topic_config(B, OTHER),
        _send(B, 1, 2, topic=OTHER),
        _send(B, 2, 3, topic=OTHER),
        _topic(A, 2, topic=OTHER),
        *_routes(OTHER),
        _topic(A, 2, perm=4, topic=OTHER),
        _send(A, 3, 0, topic=OTHER),
        _send(B, 4, 0, topic=OTHER),
        *_routes(OTHER),
        _topic_config(SLAVE_OF_B),
        _step(
            A,
            "table",
            code=RequestCode.GET_TOPICS_BY_CLUSTER,
            ext={"cluster": CLUSTER},
            name="topicList",
            client="ns",
        ),
    ],
    "messages": [
        *_collect(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *_ends(A, B, SLAVE_OF_B),
        *(_step(place, "view", serial="11", shift=0) for place in (B, SLAVE_OF_B)),
        *(
            _step(place, "query", topic=TOPIC, key="key11", number=8, is_unique=False, before_ms=-60_000)
            for place in (A, B, SLAVE_OF_B)
        ),
    ],
    "pulls": [
        *_join(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *_collect(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *_pulls(A),
        *_pulls(SLAVE_OF_A),
        *_pulls(B),
        *_pulls(SLAVE_OF_B),
        _waiting_pull(SLAVE_OF_B),
    ],
    "offsets": [
        *_join(A, B),
        *_committed(A, B, SLAVE_OF_A, SLAVE_OF_B),
        _commit(A, 1),
        _commit(B, 2),
        *_committed(A, B),
        *(
            _step(place, "ask", code=RequestCode.GET_CONSUME_STATS, ext={"consumerGroup": GROUP})
            for place in (A, B)
        ),
        _reset(B),
        *_committed(A, B),
        _reset(A, -1),
        *_committed(A, B),
    ],
    "members and locks": [
        *_join(A, B),
        *(
            _step(place, "ask", code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext={"consumerGroup": GROUP})
            for place in (A, B)
        ),
        _lock(A, A, ID),
        _lock(B, B, "id-two~"),
        _lock(B, B, ID),
        _lock(A, A, ID, code=consuming.UNLOCK),
        _lock(B, B, ID),
        _lock(A, A, "id-two~"),
        _lock(SLAVE_OF_B, B, ID),
    ],
    "retries and dead letters": [
        *_join(A, B),
        *_collect(A, B),
        _back(B, 10, 1),
        _back(B, 11, -1),
        *_collect(B, A, topic=RETRIES),
        *_collect(B, A, topic=DEAD),
    ],
    "what a slave refuses": [
        *_collect(B, SLAVE_OF_B),
        *_refused_by_slave(),
        _topic(SLAVE_OF_B, 5),
        _group(SLAVE_OF_B, consumeEnable=False),
        *_collect(B, SLAVE_OF_B),
    ],
    "a broker that shuts down": [
        *_join(A, B, SLAVE_OF_B),
        *_collect(B, SLAVE_OF_B),
        *_committed(B, SLAVE_OF_B),
        _lock(B, B, ID),
        _life(B, "shut_down"),
        *_routes(),
        *_pulls(SLAVE_OF_B),
        _waiting_pull(SLAVE_OF_B),
        *_collect(SLAVE_OF_B),
        *_ends(SLAVE_OF_B),
        *_committed(SLAVE_OF_B),
        _commit(SLAVE_OF_B, 2),
        *_committed(SLAVE_OF_B),
        _lock(SLAVE_OF_B, B, "id-two~"),
        *_refused_by_slave(),
        _send(A, 3, 0),
        _life(B, "start"),
        *_routes(),
        *_committed(B),
        *_join(B),
        _lock(B, B, "id-two~"),
        _send(B, 13, 0),
        *_collect(A, B),
    ],
    "a broker that is lost": [
        *_collect(B, SLAVE_OF_B),
        _life(B, "lose"),
        *_routes(),
        _life(B, "forget"),
        *_routes(),
        *_collect(SLAVE_OF_B),
        _life(B, "start"),
        *_routes(),
        *_collect(B),
    ],
}
