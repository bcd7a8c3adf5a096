"""A play on a broker whose slave acts as the master while the broker is down."""

from collections.abc import Mapping
from typing import Final

from tests.differential.cluster_side import SLAVE_OF, A
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
    waiting_pull,
)
from tests.doors.remoting import consuming

SLAVE = SLAVE_OF[A]
OTHER_ID: Final = "id-two~"

BEGIN: Final[Play] = (
    put_topic(A, 2),
    put_group(A),
    send(A, 1, 0),
    send(A, 2, 0),
    send(A, 3, 1),
    *join(A),
    *collect(A),
    commit(A, 1),
    *committed(A),
)

ACTING_PLAYS: Final[Mapping[str, Play]] = {
    "an acting master": [
        *join(A, SLAVE),
        *collect(A, SLAVE),
        *committed(A, SLAVE),
        *routes(),
        lock(A, A, ID),
        send(SLAVE, 90, 0),
        life(A, "lose"),
        life(A, "forget"),
        *routes(),
        *pulls(SLAVE),
        waiting_pull(SLAVE),
        *collect(SLAVE),
        *ends(SLAVE),
        *committed(SLAVE),
        lock(SLAVE, A, OTHER_ID),
        lock(SLAVE, A, ID),
        lock(SLAVE, A, OTHER_ID, code=consuming.UNLOCK),
        lock(SLAVE, A, ID),
        send(SLAVE, 91, 0),
        send_back(SLAVE, 1, 1),
        reset(SLAVE),
        step(SLAVE, "view", serial="2", shift=0),
        step(SLAVE, "query", topic=TOPIC, key="key2", number=8, is_unique=False, before_ms=-60_000),
        step(SLAVE, "ask", code=consuming.CONSUMERS, ext={"consumerGroup": GROUP}),
        commit(SLAVE, 2),
        *committed(SLAVE),
        life(A, "start"),
        *routes(),
        *committed(A),
        *join(A),
        lock(A, A, OTHER_ID),
        send(A, 4, 0),
        *collect(A, SLAVE),
        *pulls(SLAVE),
    ],
}
