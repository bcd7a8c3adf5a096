"""What is due, and the sources that say so, which the timer merges in order of due time."""

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
"""What is due in a source, earliest first.

Called while the transaction is formed, so nothing else is sent or settled before it is written. It ends with
a ``Due`` that cannot be fired, if the source has more than it had prepared.
"""


class DueSource(Protocol):
    """Something that becomes due by itself."""

    def next_due_us(self) -> int | None:
        """The earliest instant at which there is something to fire; None for never. Cheap."""

    def firing(self, until_us: int) -> AbstractAsyncContextManager[DueNow]:
        """Prepare a batch of what is due by ``until_us``; the block inside writes the transaction.

        What was fired changes memory by ``Batch.on_commit``. The rest must be as before when the block ends.
        """


def not_before(source: DueSource) -> Iterator[Due]:
    """A source for which nothing was prepared: let nothing go before what it has got since."""
    due_us = source.next_due_us()
    if due_us is not None:
        yield Due(due_us, None)
