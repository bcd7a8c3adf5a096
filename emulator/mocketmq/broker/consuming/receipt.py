"""A receipt: one message at one group. Only this module changes its state.

A receipt is in exactly one state. :data:`MOVES` lists every transition::

    NEW ──► RESERVED ◄──► FREE ◄─── time is up ─── HELD      FREE, HELD ◄──► SETTLING ──► CLOSED
              │ ▲                                  ▲ │
              │ └── taken back (released) ─────────┼─┘       any but NEW ─── reset, passed ──► CLOSED
              └──── stored: a consumer has it ─────┘

A message that was popped in order and acknowledged before an earlier one of its queue goes from SETTLING to
BEHIND, where it waits for the earlier ones. Once they are closed, it is closed too; if they are popped again,
it is popped with them (RESERVED) or after them (FREE).

Memory may not run ahead of the disk. RESERVED and SETTLING are the two states in which the receipt's row is
being written, and nobody else may choose or settle it until the transaction has ended. A commit moves it
forward; a failed transaction moves it back to the state before, which is the only undo there is
(:meth:`Receipt.move_back`). CLOSED is final, so a transaction that ends after a reset of its receipt changes
nothing.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, Final

from mocketmq.store.queue import Queue

if TYPE_CHECKING:
    from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
    from mocketmq.broker.consuming.group_queue import GroupQueue


class State(IntEnum):
    """A receipt's state; an int, because every delivery looks it up several times."""

    NEW = auto()
    """Made, and not the group's yet."""
    FREE = auto()
    """Visible to the group: any of its receivers may choose it."""
    RESERVED = auto()
    """Chosen for a receiver, or being taken back from one; not stored yet."""
    HELD = auto()
    """In flight: a receiver has it, and it is invisible to the others until ``visible_us``."""
    SETTLING = auto()
    """Its outcome is decided and being stored."""
    BEHIND = auto()
    """Acknowledged in order behind one that is not, and so to be popped once more if that one is."""
    CLOSED = auto()
    """Settled, passed over or removed."""


class Outcome(StrEnum):
    """How a receipt ended, as the table ``receipts`` has it."""

    ACKED = "acked"
    RETRIED = "retried"
    DEAD = "dead"
    PASSED = "passed"
    """The group committed an offset past it, or went back to before it."""
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    ABANDONED = "abandoned"
    """A half message that nobody decided about."""


MOVES: Final[Mapping[State, tuple[State, ...]]] = {
    State.NEW: (State.RESERVED, State.FREE, State.HELD),
    State.FREE: (State.RESERVED, State.SETTLING, State.CLOSED),
    State.RESERVED: (State.HELD, State.FREE, State.BEHIND, State.CLOSED),
    State.HELD: (State.FREE, State.RESERVED, State.SETTLING, State.CLOSED),
    State.SETTLING: (State.CLOSED, State.HELD, State.FREE, State.BEHIND),
    State.BEHIND: (State.RESERVED, State.FREE, State.CLOSED),
    State.CLOSED: (),
}


# Members are slow to look up.
_NEW, _FREE, _HELD, _BEHIND, _CLOSED = State.NEW, State.FREE, State.HELD, State.BEHIND, State.CLOSED


class IllegalMoveError(Exception):
    """A transition that :data:`MOVES` does not allow: a defect of the caller."""


class Receipt:
    """A message that a group has received, or is to receive again, and has not settled.

    ``times`` counts how often it was received; the receipt handle names that count, so an old handle is
    refused. It is 0 for a retry that waits for a receiver of its own topic, and for a half message that
    nobody was asked about yet. ``visible_us`` is when its invisible time ends. ``pop_ms`` is the time of the
    wall clock that is part of a pop's handle; 0 for a receipt that was not popped.
    """

    __slots__ = (
        "_state_before",
        "first_taken_us",
        "group_queue",
        "has_row",
        "is_delayed",
        "log_offset",
        "pop_ms",
        "queue_offset",
        "reconsume_times",
        "state",
        "times",
        "topic",
        "visible_us",
    )

    def __init__(
        self,
        group_queue: "GroupQueue",
        queue_offset: int,
        log_offset: int,
        topic: str,
        reconsume_times: int,
        *,
        is_delayed: bool,
        times: int = 0,
        first_taken_us: int = 0,
        visible_us: int = 0,
        pop_ms: int = 0,
        has_row: bool = False,
    ) -> None:
        self.group_queue = group_queue
        self.queue_offset = queue_offset
        self.log_offset = log_offset
        self.topic = topic  # as the consumer knows it: a retry bears its original topic
        self.reconsume_times = reconsume_times
        self.times = times
        self.first_taken_us = first_taken_us  # 0: not yet
        self.visible_us = visible_us
        self.pop_ms = pop_ms
        self.has_row = has_row  # in the table, or in a transaction that is being written
        self.is_delayed = is_delayed
        self.state = _NEW
        self._state_before = _NEW

    @property
    def group(self) -> "ConsumingGroup":
        """The group that received the message."""
        return self.group_queue.group

    @property
    def queue(self) -> Queue:
        """The queue that the message lies in."""
        return self.group_queue.queue

    @property
    def is_open(self) -> bool:
        """Whether the group is not done with it, nor about to be."""
        return self.state in (State.FREE, State.RESERVED, State.HELD)

    @property
    def is_in_flight(self) -> bool:
        """Whether somebody has it, or is just being given it or settling it."""
        return self.state is not _FREE and self.state is not _BEHIND

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is decided."""
        return self.state in (State.SETTLING, _BEHIND, _CLOSED)

    @property
    def can_be_settled(self) -> bool:
        """Whether its outcome may be decided now."""
        return State.SETTLING in MOVES[self.state]

    @property
    def can_be_taken_back(self) -> bool:
        """Whether its delivery may be undone now."""
        return State.RESERVED in MOVES[self.state]

    def move(self, to: State) -> None:
        """Change the state, and where the group keeps the receipt. Raises IllegalMoveError."""
        was, group_queue = self.state, self.group_queue
        if to not in MOVES[was]:
            raise IllegalMoveError(f"a receipt cannot go from {was.name} to {to.name}")
        group = group_queue.group
        if was is _NEW:
            group_queue.open[self.queue_offset] = self
            group.receipts[self.log_offset] = self
        elif was is _FREE:
            del group.available[self.log_offset]
        self._state_before, self.state = was, to
        if to is _FREE:
            group.available[self.log_offset] = self
        elif to is _CLOSED:
            del group_queue.open[self.queue_offset]
            del group.receipts[self.log_offset]
            if group_queue.ordered_pop_ms:
                _close_next(group_queue)
            group.take_closed()
        elif to is _BEHIND:
            group.take_closed()  # of all that can be given to others

    def move_back(self) -> None:
        """Undo a reservation or settlement whose transaction failed.

        The receipt returns to its former state; one that was NEW becomes FREE. A closed one stays closed.
        """
        if self.state in (State.RESERVED, State.SETTLING):
            self.move(self._state_before if self._state_before in (_HELD, _BEHIND) else _FREE)

    def acknowledged(self) -> None:
        """Close the acknowledged receipt, unless it may be popped once more in order."""
        in_order = self.pop_ms and self.pop_ms == self.group_queue.ordered_pop_ms
        if in_order and self.state is State.SETTLING and min(self.group_queue.open) < self.queue_offset:
            self.move(_BEHIND)
        else:
            self.close()

    def close(self) -> None:
        """Close the receipt, whatever its state."""
        if self.state is not _CLOSED:
            self.move(_CLOSED)


def _close_next(group_queue: "GroupQueue") -> None:
    """Close the first open receipt of a queue if it waited for those before it."""
    first = min(group_queue.open, default=None)
    if first is not None and group_queue.open[first].state is _BEHIND:
        group_queue.open[first].move(_CLOSED)
