"""Queues of a client that lets the broker assign them (QueryAssignmentProcessor of 5.3.3)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.broker.registry.request_modes import (
    POP,
    PULL,
    STRATEGIES,
    RequestMode,
    assigned,
    averagely,
    by_circle,
)

PULLING = RequestMode("orders", "billing", PULL)


def popping(share: int) -> RequestMode:
    return RequestMode("orders", "billing", POP, share)


def shares(mode: RequestMode, strategy: str, queues: int, members: int) -> list[list[int]]:
    clients = [f"c{n:02}" for n in range(members)]
    return [list(assigned(mode, STRATEGIES[strategy], queues, clients[::-1], one)) for one in clients]


@pytest.mark.parametrize(
    ("strategy", "queues", "members", "expected"),
    [
        ("AVG", 5, 2, [[0, 1, 2], [3, 4]]),
        ("AVG", 8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        ("AVG", 2, 3, [[0], [1], []]),
        ("AVG", 4, 4, [[0], [1], [2], [3]]),
        ("AVG_BY_CIRCLE", 5, 2, [[0, 2, 4], [1, 3]]),
        ("AVG_BY_CIRCLE", 2, 3, [[0], [1], []]),
    ],
)
def test_queues_are_divided_as_by_clients(
    strategy: str, queues: int, members: int, expected: list[list[int]]
) -> None:
    assert shares(PULLING, strategy, queues, members) == expected


@given(st.integers(1, 64), st.integers(1, 20), st.sampled_from([averagely, by_circle]))
def test_every_queue_goes_to_one_member(queues: int, members: int, strategy: object) -> None:
    given_out: list[Sequence[int]] = [strategy(queues, members, index) for index in range(members)]  # type: ignore[operator]
    assert sorted(queue for some in given_out for queue in some) == list(range(queues))
    assert max(map(len, given_out)) - min(map(len, given_out)) <= 1


@pytest.mark.parametrize("share", [-1, 0, 3, 4])
def test_a_popping_client_gets_all_queues_unless_few_members_share(share: int) -> None:
    assert shares(popping(share), "AVG", 8, 4) == [[-1]] * 4


def test_a_popping_client_gets_the_queues_of_the_members_after_it() -> None:
    assert shares(popping(1), "AVG", 4, 4) == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert shares(popping(2), "AVG_BY_CIRCLE", 5, 5) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
    ]


def test_each_popping_client_gets_a_queue_if_there_are_more_members_than_queues() -> None:
    assert shares(popping(1), "AVG", 2, 5) == [[0], [1], [0], [1], [0]]


@pytest.mark.parametrize("mode", [PULLING, popping(1)])
def test_a_client_outside_the_group_gets_no_queues(mode: RequestMode) -> None:
    assert list(assigned(mode, averagely, 8, ["a", "b", "c", "d"], "e")) == []
