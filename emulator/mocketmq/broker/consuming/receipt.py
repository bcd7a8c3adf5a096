"""A receipt: one message's state at one group, and ``visible_us``, the end of the invisible time.

Only this module changes the state. A receipt is in exactly one state. :data:`TRANSITIONS` lists every
transition::

    NEW ──► RESERVED ◄──► FREE ◄─── time is up ─── HELD      FREE, HELD ◄──► SETTLING ──► CLOSED
              │ ▲                                  ▲ │
              │ └── taken back (released) ─────────┼─┘       any but NEW ─── reset, passed ──► CLOSED
              └──── stored: a consumer has it ─────┘

A message that was popped in order and acknowledged before an earlier message of its queue moves from SETTLING
to BEHIND, where it waits for the earlier messages. Its receipt is closed together with theirs. If they are
popped again, it is popped with them (RESERVED) or after them (FREE).

Memory must not run ahead of the disk. In RESERVED and SETTLING the receipt's row is being written, and no
other request may select or settle the message until that transaction has ended. A commit moves the receipt
forward. A failed transaction moves it back to its former state, which is the only way to undo a transition
(:meth:`Receipt.undo_transition`). CLOSED is final. A transaction that ends after its receipt was reset
therefore changes nothing.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, Final

from mocketmq.store.queue import Queue

if TYPE_CHECKING:
    from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
    from mocketmq.broker.consuming.group_queue import GroupQueue


class State(IntEnum):
    """A receipt's state. An int for speed, because each delivery looks it up several times."""

    NEW = auto()
    """Created, but not yet added to the group."""
    FREE = auto()
    """Visible to the group: the message may be given to any of its receivers."""
    RESERVED = auto()
    """Selected for a receiver, or being taken back from a receiver, and not stored yet."""
    HELD = auto()
    """In flight: a receiver has the message, which is invisible to others until ``visible_us``."""
    SETTLING = auto()
    """The outcome is decided and being stored."""
    BEHIND = auto()
    """Popped in order, and acknowledged before an earlier message. Popped again if the earlier one is."""
    CLOSED = auto()
    """Settled, skipped or removed."""


class Outcome(StrEnum):
    """How a receipt ended, in the words of the table ``receipts``."""

    ACKED = "acked"
    RETRIED = "retried"
    DEAD = "dead"
    PASSED = "passed"
    """The group committed an offset above the message, or went back to an offset before the message."""
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    ABANDONED = "abandoned"
    """A half message that was abandoned without a decision."""


TRANSITIONS: Final[Mapping[State, tuple[State, ...]]] = {
    State.NEW: (State.RESERVED, State.FREE, State.HELD),
    State.FREE: (State.RESERVED, State.SETTLING, State.CLOSED),
    State.RESERVED: (State.HELD, State.FREE, State.BEHIND, State.CLOSED),
    State.HELD: (State.FREE, State.RESERVED, State.SETTLING, State.CLOSED),
    State.SETTLING: (State.CLOSED, State.HELD, State.FREE, State.BEHIND),
    State.BEHIND: (State.RESERVED, State.FREE, State.CLOSED),
    State.CLOSED: (),
}


# Module variables, because looking up members of an enum is slow.
_NEW, _FREE, _HELD, _BEHIND, _CLOSED = State.NEW, State.FREE, State.HELD, State.BEHIND, State.CLOSED


class IllegalTransitionError(Exception):
    """A transition that :data:`TRANSITIONS` does not allow: a defect of the caller."""


class Receipt:
    """A message that a group has received, or will receive again, and has not settled.

    ``times`` counts deliveries. The count is part of the receipt handle, so that an old handle is refused.
    The count is 0 for a retry that waits for a receiver of its original topic, and for a half message before
    its first check-back. ``visible_us`` is the end of the invisible time. ``pop_ms`` is the wall-clock time
    in the handle of a pop, 0 for a receipt that was not popped. ``is_postponed`` is set while the message
    waits for a retry because a client has postponed the end of the invisible time without asking for an
    extension. ``epoch`` is the value of ``Receipts.epoch`` at the latest delivery; None if it is not known.
    """

    __slots__ = (
        "_state_before",
        "epoch",
        "first_taken_us",
        "group_queue",
        "has_row",
        "is_delayed",
        "is_postponed",
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
    ) -> None:
        self.group_queue = group_queue
        self.queue_offset = queue_offset
        self.log_offset = log_offset
        self.topic = topic  # as the consumer sees it; the original topic for a retry
        self.reconsume_times = reconsume_times
        self.times = 0
        self.first_taken_us = 0  # 0: not yet taken
        self.visible_us = 0
        self.pop_ms = 0
        self.has_row = False  # whether its row is in the table, or in a transaction being written
        self.is_delayed = is_delayed
        self.is_postponed = False
        self.epoch: int | None = None
        self.state = _NEW
        self._state_before = _NEW

    @property
    def group(self) -> "ConsumingGroup":
        """The group that received the message."""
        return self.group_queue.group

    @property
    def queue(self) -> Queue:
        """The queue of the message."""
        return self.group_queue.queue

    @property
    def is_open(self) -> bool:
        """Whether the receipt is neither settled nor being settled."""
        return self.state in (State.FREE, State.RESERVED, State.HELD)

    @property
    def is_in_flight(self) -> bool:
        """Whether the message is with a receiver, on its way to one, or being settled."""
        return self.state is not _FREE and self.state is not _BEHIND

    @property
    def waits_for_retry(self) -> bool:
        """Whether the consumer has postponed the message, and the postponement is not over."""
        return self.is_postponed and self.state is _HELD

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is decided."""
        return self.state in (State.SETTLING, _BEHIND, _CLOSED)

    @property
    def can_be_settled(self) -> bool:
        """Whether the message may be settled now."""
        return State.SETTLING in TRANSITIONS[self.state]

    @property
    def can_be_taken_back(self) -> bool:
        """Whether the delivery may be undone now."""
        return State.RESERVED in TRANSITIONS[self.state]

    def transition(self, to: State) -> None:
        """Change the state, and the group's collections accordingly. Raises IllegalTransitionError."""
        was, group_queue = self.state, self.group_queue
        if to not in TRANSITIONS[was]:
            raise IllegalTransitionError(f"a receipt cannot go from {was.name} to {to.name}")
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
            group.take_closed()  # wakes ordered receivers

    def undo_transition(self) -> None:
        """Undo a reservation or settlement after its transaction has failed.

        The receipt returns to its former state, or to FREE if it was NEW. A closed receipt stays closed.
        """
        if self.state in (State.RESERVED, State.SETTLING):
            self.transition(self._state_before if self._state_before in (_HELD, _BEHIND) else _FREE)

    def acknowledged(self) -> None:
        """Close the acknowledged receipt, or set it to BEHIND if it may have to be popped again in order."""
        in_order = self.pop_ms and self.pop_ms == self.group_queue.ordered_pop_ms
        if in_order and self.state is State.SETTLING and min(self.group_queue.open) < self.queue_offset:
            self.transition(_BEHIND)
        else:
            self.close()

    def close(self) -> None:
        """Close the receipt, regardless of its state."""
        if self.state is not _CLOSED:
            self.transition(_CLOSED)


def _close_next(group_queue: "GroupQueue") -> None:
    """Close the first open receipt of a queue if it is BEHIND, because no earlier receipts are left."""
    first = min(group_queue.open, default=None)
    if first is not None and group_queue.open[first].state is _BEHIND:
        group_queue.open[first].transition(_CLOSED)
