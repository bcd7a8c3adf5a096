"""Plays on a cluster of two brokers with a slave each, and what each of them is about.

Apache's own integration tests start several brokers for such things.
"""

from collections.abc import Mapping
from typing import Final

from mocketmq.message.names import CLUSTER
from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.cluster_side import SLAVE_OF, A, B
from tests.differential.cluster_steps import (
    GROUP,
    ID,
    TOPIC,
    Play,
    collect,
    commit,
    committed,
    ends,
    join,
    life,
    lock,
    pulls,
    put_group,
    put_topic,
    reset,
    routes,
    send,
    send_back,
    step,
    topic_config,
    waiting_pull,
)
from tests.differential.static_plays import FROM_B, WITHOUT_B
from tests.doors.remoting import consuming

RETRIES, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
SLAVE_OF_A, SLAVE_OF_B = SLAVE_OF[A], SLAVE_OF[B]


def _refused_by_slave() -> Play:
    """Ask the slave of broker-b for what only a broker does."""
    return (send(SLAVE_OF_B, 90, 0), send_back(SLAVE_OF_B, 10, 1), reset(SLAVE_OF_B))


OTHER: Final = "U~"
"""A topic that a play creates."""
PREPARED: Final[Play] = (
    put_topic(A, 2),
    put_topic(B, 3),
    put_group(A, brokerId=1),
    put_group(B, brokerId=1),
    send(A, 1, 0),
    send(A, 2, 1),
    send(B, 10, 0),
    send(B, 11, 0),
    send(B, 12, 2),
    *join(A, B),
    *collect(A, B),
    commit(B, 1),
    *committed(A, B),
)
"""What each play begins with, which slaves have when they start: a group has consumed one of the messages.

It wants to pull from slaves.
"""

PLAYS: Final[Mapping[str, Play]] = {
    "topics at some brokers": [
        *routes(),
        *routes(OTHER),
        put_topic(B, 3, topic=OTHER),
        *routes(OTHER),
        topic_config(A, OTHER),
        topic_config(B, OTHER),
        send(B, 1, 2, topic=OTHER),
        send(B, 2, 3, topic=OTHER),
        put_topic(A, 2, topic=OTHER),
        *routes(OTHER),
        put_topic(A, 2, perm=4, topic=OTHER),
        send(A, 3, 0, topic=OTHER),
        send(B, 4, 0, topic=OTHER),
        *routes(OTHER),
        topic_config(SLAVE_OF_B),
        step(
            A,
            "table",
            code=RequestCode.GET_TOPICS_BY_CLUSTER,
            ext={"cluster": CLUSTER},
            name="topicList",
            client="ns",
        ),
    ],
    "messages": [
        *collect(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *ends(A, B, SLAVE_OF_B),
        *(step(place, "view", serial="11", shift=0) for place in (B, SLAVE_OF_B)),
        *(
            step(place, "query", topic=TOPIC, key="key11", number=8, is_unique=False, before_ms=-60_000)
            for place in (A, B, SLAVE_OF_B)
        ),
    ],
    "pulls": [
        *join(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *collect(A, B, SLAVE_OF_A, SLAVE_OF_B),
        *pulls(A),
        *pulls(SLAVE_OF_A),
        *pulls(B),
        *pulls(SLAVE_OF_B),
        waiting_pull(SLAVE_OF_B),
    ],
    "offsets": [
        *join(A, B),
        *committed(A, B, SLAVE_OF_A, SLAVE_OF_B),
        commit(A, 1),
        commit(B, 2),
        *committed(A, B),
        *(
            step(place, "ask", code=RequestCode.GET_CONSUME_STATS, ext={"consumerGroup": GROUP})
            for place in (A, B)
        ),
        reset(B),
        *committed(A, B),
        reset(A, -1),
        *committed(A, B),
    ],
    "members and locks": [
        *join(A, B),
        *(
            step(place, "ask", code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext={"consumerGroup": GROUP})
            for place in (A, B)
        ),
        lock(A, A, ID),
        lock(B, B, "id-two~"),
        lock(B, B, ID),
        lock(A, A, ID, code=consuming.UNLOCK),
        lock(B, B, ID),
        lock(A, A, "id-two~"),
        lock(SLAVE_OF_B, B, ID),
    ],
    "retries and dead letters": [
        *join(A, B),
        *collect(A, B),
        send_back(B, 10, 1),
        send_back(B, 11, -1),
        *collect(B, A, topic=RETRIES),
        *collect(B, A, topic=DEAD),
    ],
    "what a slave refuses": [
        *collect(B, SLAVE_OF_B),
        *_refused_by_slave(),
        put_topic(SLAVE_OF_B, 5),
        put_group(SLAVE_OF_B, consumeEnable=False),
        *collect(B, SLAVE_OF_B),
    ],
    "a broker that shuts down": [
        *join(A, B, SLAVE_OF_B),
        *collect(B, SLAVE_OF_B),
        *committed(B, SLAVE_OF_B),
        lock(B, B, ID),
        *FROM_B,
        life(B, "shut_down"),
        *routes(),
        *WITHOUT_B,
        *pulls(SLAVE_OF_B),
        waiting_pull(SLAVE_OF_B),
        *collect(SLAVE_OF_B),
        *ends(SLAVE_OF_B),
        *committed(SLAVE_OF_B),
        commit(SLAVE_OF_B, 2),
        *committed(SLAVE_OF_B),
        lock(SLAVE_OF_B, B, "id-two~"),
        *_refused_by_slave(),
        send(A, 3, 0),
        life(B, "start"),
        *routes(),
        *committed(B),
        *join(B),
        lock(B, B, "id-two~"),
        send(B, 13, 0),
        *collect(A, B),
    ],
    "a broker that is lost": [
        *collect(B, SLAVE_OF_B),
        life(B, "lose"),
        *routes(),
        life(B, "forget"),
        *routes(),
        *collect(SLAVE_OF_B),
        life(B, "start"),
        *routes(),
        *collect(B),
    ],
}
