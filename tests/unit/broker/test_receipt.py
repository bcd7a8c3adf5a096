"""The state table of a receipt: every state and every transition, allowed or refused."""

import asyncio
from itertools import product

import pytest

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import TRANSITIONS, IllegalTransitionError, Outcome, Receipt, State
from mocketmq.broker.registry.groups import Group
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
"""Steps that bring a new take into each state."""

ALLOWED = {
    *((State.NEW, to) for to in (State.RESERVED, State.FREE, State.HELD)),
    *((State.FREE, to) for to in (State.RESERVED, State.SETTLING, State.CLOSED)),
    *((State.RESERVED, to) for to in (State.HELD, State.FREE, State.BEHIND, State.CLOSED)),
    *((State.HELD, to) for to in (State.FREE, State.RESERVED, State.SETTLING, State.CLOSED)),
    *((State.SETTLING, to) for to in (State.CLOSED, State.HELD, State.FREE, State.BEHIND)),
    *((State.BEHIND, to) for to in (State.RESERVED, State.FREE, State.CLOSED)),
}


def take_in(state: State) -> Receipt:
    """Return a receipt in the state, for a group of its own."""
    group_queue = ConsumingGroup(Group("billing", 16, 1)).in_queue(Queue(1, "orders", 0))
    receipt = Receipt(group_queue, 3, 7, "orders", 0, is_delayed=False)
    for step in WAYS[state]:
        receipt.transition(step)
    return receipt


def check_is_listed(receipt: Receipt) -> None:
    """Check that the group's lists of receipts agree with the state."""
    group = receipt.group
    is_open = receipt.state not in (State.NEW, State.CLOSED)
    assert group.receipts == ({7: receipt} if is_open else {})
    assert receipt.group_queue.open == ({3: receipt} if is_open else {})
    assert group.available == ({7: receipt} if receipt.state is State.FREE else {})
    assert receipt.group_queue.in_flight == (is_open and receipt.state not in (State.FREE, State.BEHIND))


@pytest.mark.parametrize(("was", "to"), list(product(State, State)))
def test_every_transition_follows_the_table(was: State, to: State) -> None:
    receipt = take_in(was)
    if (was, to) in ALLOWED:
        receipt.transition(to)
        assert receipt.state is to
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {was.name} to {to.name}"):
            receipt.transition(to)
        assert receipt.state is was
    check_is_listed(receipt)


def test_the_table_names_every_state() -> None:
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize(
    ("was", "way"),
    [
        *product((State.FREE, State.HELD), (State.RESERVED, State.SETTLING)),
        (State.BEHIND, State.RESERVED),
    ],
)
def test_failed_transaction_restores_the_previous_state(was: State, way: State) -> None:
    receipt = take_in(was)
    receipt.transition(way)
    receipt.undo_transition()
    assert receipt.state is was
    check_is_listed(receipt)


def test_failed_reservation_frees_the_receipt() -> None:
    receipt = take_in(State.RESERVED)
    receipt.undo_transition()
    assert receipt.state is State.FREE


@pytest.mark.parametrize("state", [State.FREE, State.HELD, State.BEHIND, State.CLOSED])
def test_stored_states_are_never_undone(state: State) -> None:
    receipt = take_in(state)
    receipt.undo_transition()
    assert receipt.state is state


@pytest.mark.parametrize("state", [state for state in State if state is not State.NEW])
def test_receipt_can_be_closed_twice_in_any_state(state: State) -> None:
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
