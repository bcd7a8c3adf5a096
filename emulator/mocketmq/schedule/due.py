"""Due entries and their sources, which the timer merges in order of due time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from mocketmq.store.writer import Batch


class Due(NamedTuple):
    """An event that is due, and what the timer's transaction does about it."""

    instant_us: int
    fire: Callable[[Batch], None] | None  # None: stop; nothing from here on can fire in this batch
    delivers: bool = False  # it makes a message visible


DueNow = Callable[[], Iterator[Due]]
"""Yields a source's due entries, earliest first.

Runs while the transaction is built, so no send or settlement comes between. Ends with a ``Due`` without
``fire`` if the source has more entries than it prepared.
"""


class DueSource(Protocol):
    """A source of entries that become due."""

    def next_due_us(self) -> int | None:
        """The earliest due time, None for never. Must be cheap."""

    def firing(self, until_us: int) -> AbstractAsyncContextManager[DueNow]:
        """Prepare a batch of entries due by ``until_us``; the timer writes the transaction inside the block.

        Fired entries change memory through ``Batch.on_commit``. All others must be unchanged after the block.
        """


def not_before(source: DueSource) -> Iterator[Due]:
    """Stand in for an unprepared source: stop the batch at an entry that the source got since."""
    due_us = source.next_due_us()
    if due_us is not None:
        yield Due(due_us, None)
