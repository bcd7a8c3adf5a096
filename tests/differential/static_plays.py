"""Plays with static topics on a cluster of two brokers: logical queues, which move between the brokers.

The mappings are those that ``mqadmin`` sends. Numbers of queues and offsets are logical ones.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.cluster_side import A, B
from tests.differential.cluster_steps import (
    GROUP,
    Play,
    Step,
    collect,
    commit,
    committed,
    ends,
    join,
    routes,
    send,
    step,
    topic_config,
)
from tests.doors.remoting import consuming
from tests.doors.remoting.static_topics import ALTERNATING, AT_A, BLOCK, STATIC, Hosted, Item, detail, header

TOPIC = "S~"
ITEM: Final[Item] = (0, 0, A, 0)
MOVING: Final[Hosted] = {0: [ITEM, (1, 0, B, -1)]}
MOVED: Final[Hosted] = {0: [ITEM, (1, 0, B, BLOCK)]}
BACK: Final[Hosted] = {0: [*MOVED[0], (2, 1, A, 2 * BLOCK)]}
"""The only logical queue, on its way to broker-b, there, and back at another queue of broker-a."""


def _map(
    place: str,
    hosted: Hosted,
    queues: int,
    *,
    total: int = 1,
    epoch: int = 1,
    force: str = "false",
    **more: Any,
) -> Step:
    """Give a broker, which has so many queues of the topic, its mapping."""
    body = json.dumps(detail(place, hosted, queues=total, epoch=epoch, topic=TOPIC) | more)
    return step(place, "change", code=STATIC, ext=header(queues, topic=TOPIC, force=force), body=body)


def _at_a() -> Play:
    return [_map(place, AT_A[place], len(AT_A[place])) for place in (A, B)]


def _moved(number: int) -> Play:
    """Let the only logical queue move to broker-b, with a message there before its offset is decided."""
    return [
        _map(B, MOVING, 1, epoch=2),
        _map(A, MOVING, 1, epoch=2),
        _send(B, number, 0),
        _map(B, MOVED, 1, epoch=2),
        _map(A, MOVED, 1, epoch=2),
    ]


def _send(place: str, number: int, queue_id: int) -> Step:
    return send(place, number, queue_id, topic=TOPIC)


def _pull(place: str, offset: int, queue_id: int = 0, flags: int = 0, **more: Any) -> Step:
    return step(
        place,
        "pull",
        topic=TOPIC,
        queue_id=queue_id,
        at="absolute",
        offset=offset,
        flags=flags | consuming.SUBSCRIPTION,
        consumerGroup=GROUP,
        **more,
    )


def _pulls(place: str, *offsets: int) -> Play:
    return [_pull(place, offset) for offset in offsets]


def _offsets(place: str, queue_id: int = 0) -> Play:
    return [*ends(place, topic=TOPIC, queue_id=queue_id), *committed(place, topic=TOPIC, queue_id=queue_id)]


def _commit(place: str, offset: int, queue_id: int = 0) -> Step:
    return commit(place, offset, topic=TOPIC, queue_id=queue_id)


def _search(place: str, timestamp_ms: int, queue_id: int = 0) -> Step:
    ext = consuming.place(queue_id, TOPIC, None, timestamp=timestamp_ms)
    return step(place, "ask", code=consuming.SEARCH_OFFSET, ext=ext)


def _earliest(place: str, queue_id: int = 0) -> Step:
    return step(place, "earliest", topic=TOPIC, queue_id=queue_id)


def _seen(*places: str) -> Play:
    """Ask for the route, and the brokers for their mappings."""
    return [*routes(TOPIC), *(topic_config(place, TOPIC, lo="true") for place in places)]


def _stats(place: str) -> Play:
    return [
        step(place, "ask", code=RequestCode.GET_CONSUME_STATS, ext={"consumerGroup": GROUP, "topic": TOPIC}),
        step(place, "ask", code=RequestCode.GET_TOPIC_STATS_INFO, ext={"topic": TOPIC}),
    ]


LATER_MS: Final = 1 << 43
"""A time at which no message is stored yet."""

_FROM_B: Final[Hosted] = {0: [(0, 0, B, 0), (1, 0, A, BLOCK)]}
FROM_B: Final[Play] = [
    _map(B, {0: _FROM_B[0][:1]}, 1),
    _map(A, {}, 0),
    _send(B, 1, 0),
    _map(A, _FROM_B, 1, epoch=2),
    _map(B, _FROM_B, 1, epoch=2),
    _send(A, 2, 0),
    *_pulls(A, 0, 1, BLOCK),
]
"""The only logical queue moves from broker-b to broker-a."""
WITHOUT_B: Final[Play] = [
    *_pulls(A, 0, BLOCK),
    *ends(A, topic=TOPIC),
    _commit(A, BLOCK + 1),
    *committed(A, topic=TOPIC),
]
"""What broker-a answers then, while broker-b is down."""

STATIC_PLAYS: Final[Mapping[str, Play]] = {
    "static topics": [
        *(_map(place, ALTERNATING[place], 2, total=4) for place in (A, B)),
        *_seen(A, B),
        topic_config(A, TOPIC),
        *join(A, B),
        *(_send((A, B)[number % 2], number, number) for number in range(4)),
        *(_pull((A, B)[number % 2], 0, number) for number in range(4)),
        *(each for number in range(4) for each in _offsets((A, B)[number % 2], number)),
        _commit(B, 1, 3),
        _commit(A, 1, 2),
        *committed(B, topic=TOPIC, queue_id=3),
        *committed(A, topic=TOPIC, queue_id=2),
        *collect(A, B, topic=TOPIC),
        *(_search(B, time, 3) for time in (0, LATER_MS)),
        *_stats(A),
        *_stats(B),
    ],
    "logical queues at the wrong broker": [
        *(_map(place, ALTERNATING[place], 2, total=4) for place in (A, B)),
        *(_send(A, number, number) for number in (1, 3, 4)),
        _pull(A, 0, 1),
        *ends(A, topic=TOPIC, queue_id=1),
        *committed(A, topic=TOPIC, queue_id=1),
        _commit(A, 1, 1),
        _search(A, 0, 1),
        _earliest(A, 1),
        *collect(A, B, topic=TOPIC),
    ],
    "a logical queue that moves": [
        *_at_a(),
        *join(A, B),
        _send(A, 1, 0),
        _send(A, 2, 0),
        _commit(A, 1),
        *_offsets(A),
        _map(B, MOVING, 1, epoch=2),
        _map(A, MOVING, 1, epoch=2),
        *_seen(A, B),
        _send(A, 3, 0),
        _send(B, 4, 0),
        *_offsets(B),
        *_pulls(B, 0, 2),
        _map(B, MOVED, 1, epoch=2),
        _map(A, MOVED, 1, epoch=2),
        *_seen(A, B),
        _send(B, 5, 0),
        *_pulls(A, 0),
        *_pulls(B, 0, 1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 2, BLOCK + 5),
        *_offsets(B),
        *_offsets(A),
        _commit(B, 2),
        *committed(B, topic=TOPIC),
        _commit(B, BLOCK + 1),
        *committed(B, topic=TOPIC),
        *collect(B, topic=TOPIC),
        _search(B, LATER_MS),
        _earliest(B),
        *_stats(A),
        *_stats(B),
    ],
    "a logical queue that moves back": [
        *_at_a(),
        _send(A, 1, -1),
        *_moved(2),
        _map(A, BACK, 2, epoch=3),
        _map(B, BACK, 1, epoch=3),
        *_seen(A, B),
        _send(B, 3, 0),
        _send(A, 4, 0),
        *_pulls(A, 0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1),
        *_offsets(A),
        _commit(A, BLOCK),
        *committed(A, topic=TOPIC),
        *collect(A, topic=TOPIC),
    ],
    "mappings that are refused": [
        *_at_a(),
        _map(A, AT_A[A], 1, epoch=0),
        _map(A, AT_A[A], 1, scope="other"),
        _map(A, {}, 1),
        _map(A, {0: [ITEM, (1, 1, A, BLOCK)]}, 1),
        _map(A, {0: [ITEM, (0, 0, A, 5)]}, 1),
        _map(A, {0: [ITEM, (1, 0, A, 0)]}, 1),
        _map(A, {0: [(0, 0, A, -1), (1, 0, A, 0)]}, 1),
        *_seen(A, B),
        _map(A, {1: [(0, 1, A, 0)]}, 2, total=2, epoch=2),
        *_seen(A, B),
        _map(A, {1: [(0, 0, A, 0)]}, 2, total=2, epoch=0, force="true"),
        *_seen(A, B),
        _send(A, 1, 1),
    ],
}
