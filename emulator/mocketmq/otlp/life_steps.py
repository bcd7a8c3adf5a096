"""The events of messages that still need spans, each with its wall-clock time.

Parts of the broker note each commit, pull and the like by a method call here. The call only adds a tuple to a
bounded queue; it does not read the store, format or send anything. The store has only the instants of the
broker's clock, so a note adds the wall-clock time that spans need.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.ledger_notes import Step
from mocketmq.broker.consuming.receipt import Outcome, Receipt
from mocketmq.clock import Clock, wall_us
from mocketmq.message.message import StoredMessage

MAX_STEPS: Final = 10_000
"""Maximum number of steps that wait for a span. Further steps are dropped and counted."""
MAX_BYTES: Final = 16 << 20
"""Maximum size of the properties in waiting steps."""
MAX_RECORDS: Final = 10_000
"""Maximum number of new records that wait for spans. Older records are dropped and counted."""
MAX_OFFSETS: Final = 256
"""Maximum number of messages per pull or commit that get spans. The newest ones get them."""


class CommitStep(NamedTuple):
    """A commit, after which the next record gets the log offset ``end``."""

    wall_us: int
    at_us: int
    end: int


class ParkStep(NamedTuple):
    """A message that a delay scheme has saved outside of the store, or has cancelled (``is_cancelled``)."""

    wall_us: int
    at_us: int
    message: StoredMessage  # without its body
    size: int
    is_cancelled: bool


class GroupStep(NamedTuple):
    """A record that a group has received (without ``outcome``) or settled."""

    wall_us: int
    at_us: int
    group: str
    log_offset: int
    outcome: Outcome | None
    times: int | None  # None for a pull by offset, which does not count receives


class OffsetStep(NamedTuple):
    """A pull of messages by a group, or a commit that moved its offset past them."""

    wall_us: int
    at_us: int
    group: str
    queue_key: int
    offsets: Sequence[int]
    is_commit: bool


LifeStep = CommitStep | ParkStep | GroupStep | OffsetStep


class LifeSteps:
    """The steps that wait for spans. ``dropped`` counts dropped steps, and records left without spans."""

    def __init__(self, broker: Broker) -> None:
        self.dropped = 0
        self._clock: Clock = broker.clock
        self._writer = broker.store.writer
        self._steps: deque[LifeStep] = deque()
        self._bytes = 0
        self._end = self._writer.next_log_offset
        self._writer.add_change_listener(self._committed)
        broker.schemes.on_kept = self._parked
        broker.schemes.on_cancelled = self._cancelled
        broker.receipts.on_step = self._by_receipt
        broker.ledger_notes.trail.on_step = self._by_offset

    def take_steps(self) -> list[LifeStep]:
        """Take all steps so far, in order."""
        steps = list(self._steps)
        self._steps.clear()
        self._bytes = 0
        return steps

    def first_of(self, begin: int, steps: Sequence[LifeStep]) -> int:
        """Return the first new record to read: ``begin``, or a later one if the steps add too many."""
        end = max((step.end for step in steps if isinstance(step, CommitStep)), default=begin)
        first = max(begin, end - MAX_RECORDS)
        self.dropped += first - begin
        return first

    def _note(self, step: LifeStep, size: int = 0) -> None:
        if len(self._steps) >= MAX_STEPS or self._bytes + size > MAX_BYTES:
            self.dropped += 1
            return
        self._bytes += size
        self._steps.append(step)

    def _committed(self) -> None:
        end = self._writer.next_log_offset
        if end == self._end:
            return
        self._end = end
        step = CommitStep(wall_us(), self._clock.now_us(), end)
        if len(self._steps) >= MAX_STEPS and isinstance(self._steps[-1], CommitStep):
            self._steps[-1] = step  # the later step also covers the records of the earlier step
        else:
            self._note(step)

    def _parked(self, message: StoredMessage, *, is_cancelled: bool = False) -> None:
        at_us, size = self._clock.now_us(), len(message.body)
        step = ParkStep(wall_us(), at_us, message._replace(body=b""), size, is_cancelled)
        self._note(step, len(message.properties))

    def _cancelled(self, message: StoredMessage) -> None:
        self._parked(message, is_cancelled=True)

    def _by_receipt(self, receipt: Receipt, outcome: Outcome | None, at_us: int) -> None:
        group, times = receipt.group.name, receipt.times
        self._note(GroupStep(wall_us(), at_us, group, receipt.log_offset, outcome, times))

    def _by_offset(self, step: Step) -> None:
        offsets = step.offsets[-MAX_OFFSETS:]
        self.dropped += len(step.offsets) - len(offsets)
        self._note(OffsetStep(wall_us(), step.at_us, step.group, step.queue.key, offsets, step.is_commit))
