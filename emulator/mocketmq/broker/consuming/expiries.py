"""A queue of receipts in flight, ordered by the end of their invisible time."""

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mocketmq.broker.consuming.receipt import Receipt, State

SPARE = 500


class Expiry(NamedTuple):
    """A receipt whose invisible time has ended."""

    instant_us: int
    receipt: Receipt

    @property
    def holds(self) -> bool:
        """Whether the receipt is still in flight, with the same end of its invisible time."""
        return self.receipt.state is State.HELD and self.receipt.visible_us == self.instant_us


class Expiries:
    """A queue of receipts, in order of their ``visible_us``.

    A receipt that was settled or extended leaves a stale entry, which is skipped later. Stale entries are
    removed when they outnumber the live entries.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        # The numbers distinguish receipts of a group from those of a deleted group with the same name.
        self._entries: list[tuple[int, int, str, int, Receipt]] = []
        self._numbers = itertools.count()
        self._crowded = SPARE

    def add_receipt(self, receipt: Receipt) -> None:
        """Add a receipt by its ``visible_us``."""
        group_name = receipt.group.name
        number = next(self._numbers)
        entry = (receipt.visible_us, receipt.log_offset, group_name, number, receipt)
        heapq.heappush(self._entries, entry)
        is_next = self._entries[0][3] == number  # not compared by `is`, because compiled code copies tuples
        if len(self._entries) > self._crowded:
            self._entries = [entry for entry in self._entries if _is_expiring(entry)]
            heapq.heapify(self._entries)
            self._crowded = 2 * len(self._entries) + SPARE
        if is_next:
            self._changed()

    def next_us(self) -> int | None:
        """The end of the next invisible time; None without receipts."""
        entries = self._entries
        while entries and not _is_expiring(entries[0]):
            heapq.heappop(entries)
        return entries[0][0] if entries else None

    def pop(self, until_us: int, limit: int) -> list[Expiry]:
        """Remove up to ``limit`` receipts whose invisible time ends by ``until_us``, earliest first."""
        popped: list[Expiry] = []
        while len(popped) < limit and (next_us := self.next_us()) is not None and next_us <= until_us:
            popped.append(Expiry(next_us, heapq.heappop(self._entries)[-1]))
        return popped

    def put_back(self, expiries: Iterable[Expiry]) -> None:
        """Put back the receipts that are still in flight with the same end."""
        for expiry in expiries:
            if expiry.holds:
                self.add_receipt(expiry.receipt)


def _is_expiring(entry: tuple[int, int, str, int, Receipt]) -> bool:
    visible_us, *_, receipt = entry
    return receipt.state is State.HELD and receipt.visible_us == visible_us
