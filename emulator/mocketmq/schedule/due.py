"""Due entries and their sources. The timer merges the entries of all sources in order of due time."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from mocketmq.store.batch import Batch


class Due(NamedTuple):
    """An event that is due, and the function that handles it in the timer's transaction."""

    instant_us: int
    fire: Callable[[Batch], None] | None  # None ends the batch; no later entry can fire in it
    delivers: bool = False  # whether firing makes a message visible


DueNow = Callable[[], Iterator[Due]]
"""Yields a source's due entries, earliest first.

Runs while the transaction is built, so no send or settlement can happen in between. The last ``Due`` has no
``fire`` if the source has more entries than it prepared.
"""


class DueSource(Protocol):
    """A source of entries that become due."""

    def next_due_us(self) -> int | None:
        """The earliest due time, or None if nothing will become due. Must be cheap."""

    @abstractmethod
    def firing(self, until_us: int) -> AbstractAsyncContextManager[DueNow]:
        """Prepare a batch of entries due by ``until_us``; the timer writes the transaction inside the block.

        Fired entries change memory through ``Batch.on_commit``. Entries that did not fire must be unchanged
        after the block.
        """


def not_before(source: DueSource) -> Iterator[Due]:
    """Stand in for an unprepared source, and end the batch at an entry that the source has got since."""
    due_us = source.next_due_us()
    if due_us is not None:
        yield Due(due_us, None)
