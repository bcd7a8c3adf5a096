"""The state table of a receipt: every state and every move, allowed or refused."""

import asyncio
from itertools import product

import pytest

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import MOVES, IllegalMoveError, Outcome, Receipt, State
from mocketmq.broker.registry.group import Group
from mocketmq.store.queue import Queue

WAYS: dict[State, tuple[State, ...]] = {
    State.NEW: (),
    State.FREE: (State.FREE,),
    State.RESERVED: (State.RESERVED,),
    State.HELD: (State.HELD,),
    State.SETTLING: (State.HELD, State.SETTLING),
    State.BEHIND: (State.HELD, State.SETTLING, State.BEHIND),
    State.CLOSED: (State.HELD, State.CLOSED),
}
"""How a new take gets into each state."""

ALLOWED = {
    *((State.NEW, to) for to in (State.RESERVED, State.FREE, State.HELD)),
    *((State.FREE, to) for to in (State.RESERVED, State.SETTLING, State.CLOSED)),
    *((State.RESERVED, to) for to in (State.HELD, State.FREE, State.BEHIND, State.CLOSED)),
    *((State.HELD, to) for to in (State.FREE, State.RESERVED, State.SETTLING, State.CLOSED)),
    *((State.SETTLING, to) for to in (State.CLOSED, State.HELD, State.FREE, State.BEHIND)),
    *((State.BEHIND, to) for to in (State.RESERVED, State.FREE, State.CLOSED)),
}


def take_in(state: State) -> Receipt:
    """A receipt of a group of its own, in the state."""
    group_queue = ConsumingGroup(Group("billing", 16, 1)).in_queue(Queue(1, "orders", 0))
    receipt = Receipt(group_queue, 3, 7, "orders", 0, is_delayed=False)
    for step in WAYS[state]:
        receipt.move(step)
    return receipt


def check_is_listed(receipt: Receipt) -> None:
    """What the group keeps of its receipts agrees with the state."""
    group = receipt.group
    is_open = receipt.state not in (State.NEW, State.CLOSED)
    assert group.receipts == ({7: receipt} if is_open else {})
    assert receipt.group_queue.open == ({3: receipt} if is_open else {})
    assert group.available == ({7: receipt} if receipt.state is State.FREE else {})
    assert receipt.group_queue.in_flight == (is_open and receipt.state not in (State.FREE, State.BEHIND))


@pytest.mark.parametrize(("was", "to"), list(product(State, State)))
def test_every_move_is_made_or_refused_as_the_table_says(was: State, to: State) -> None:
    receipt = take_in(was)
    if (was, to) in ALLOWED:
        receipt.move(to)
        assert receipt.state is to
    else:
        with pytest.raises(IllegalMoveError, match=f"from {was.name} to {to.name}"):
            receipt.move(to)
        assert receipt.state is was
    check_is_listed(receipt)


def test_the_table_names_every_state() -> None:
    assert set(MOVES) == set(State)


@pytest.mark.parametrize(
    ("was", "way"),
    [
        *product((State.FREE, State.HELD), (State.RESERVED, State.SETTLING)),
        (State.BEHIND, State.RESERVED),
    ],
)
def test_a_failed_transaction_leads_back_to_the_state_before(was: State, way: State) -> None:
    receipt = take_in(was)
    receipt.move(way)
    receipt.move_back()
    assert receipt.state is was
    check_is_listed(receipt)


def test_what_was_chosen_first_and_not_stored_is_free() -> None:
    receipt = take_in(State.RESERVED)
    receipt.move_back()
    assert receipt.state is State.FREE


@pytest.mark.parametrize("state", [State.FREE, State.HELD, State.BEHIND, State.CLOSED])
def test_there_is_no_way_back_from_a_state_that_is_stored(state: State) -> None:
    receipt = take_in(state)
    receipt.move_back()
    assert receipt.state is state


@pytest.mark.parametrize("state", [state for state in State if state is not State.NEW])
def test_it_can_be_closed_in_whatever_state_and_twice(state: State) -> None:
    receipt = take_in(state)
    closed = asyncio.Event()
    with receipt.group.announcing(closed):
        receipt.close()
        receipt.close()
    assert (receipt.state, closed.is_set()) == (State.CLOSED, state is not State.CLOSED)
    check_is_listed(receipt)


def test_outcomes_are_stored_as_before() -> None:
    assert [str(outcome) for outcome in Outcome] == [
        *("acked", "retried", "dead", "passed", "committed", "rolled back", "abandoned"),
    ]
