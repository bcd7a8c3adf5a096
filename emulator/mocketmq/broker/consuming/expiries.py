"""Receipts in flight, in the order in which their invisible time ends."""

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mocketmq.broker.consuming.receipt import Receipt, State

SPARE = 500


class Expiry(NamedTuple):
    """A receipt whose time ends."""

    instant_us: int
    receipt: Receipt

    @property
    def holds(self) -> bool:
        """Whether it is still in flight, and its time was not changed."""
        return self.receipt.state is State.HELD and self.receipt.visible_us == self.instant_us


class Expiries:
    """Tells which receipts expire next, by their ``visible_us``.

    A receipt that was settled or extended leaves a stale entry, which is skipped. Stale entries are removed
    when they outnumber the live ones.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        # The numbers tell a receipt from another one of a group of the same name, which was deleted.
        self._entries: list[tuple[int, int, str, int, Receipt]] = []
        self._numbers = itertools.count()
        self._crowded = SPARE

    def add(self, receipt: Receipt) -> None:
        """Add a receipt by its ``visible_us``."""
        group_name = receipt.group.name
        entry = (receipt.visible_us, receipt.log_offset, group_name, next(self._numbers), receipt)
        heapq.heappush(self._entries, entry)
        is_next = self._entries[0] is entry
        if len(self._entries) > self._crowded:
            self._entries = [entry for entry in self._entries if _is_expiring(entry)]
            heapq.heapify(self._entries)
            self._crowded = 2 * len(self._entries) + SPARE
        if is_next:
            self._changed()

    def next_us(self) -> int | None:
        """When the next receipt's time ends; None if there is none."""
        entries = self._entries
        while entries and not _is_expiring(entries[0]):
            heapq.heappop(entries)
        return entries[0][0] if entries else None

    def pop(self, until_us: int, limit: int) -> list[Expiry]:
        """Remove up to ``limit`` receipts whose time ends by ``until_us``, earliest first."""
        popped: list[Expiry] = []
        while len(popped) < limit and (next_us := self.next_us()) is not None and next_us <= until_us:
            popped.append(Expiry(next_us, heapq.heappop(self._entries)[-1]))
        return popped

    def put_back(self, expiries: Iterable[Expiry]) -> None:
        """Add those again whose receipts are still in flight, and end no later or earlier than they did."""
        for expiry in expiries:
            if expiry.holds:
                self.add(expiry.receipt)


def _is_expiring(entry: tuple[int, int, str, int, Receipt]) -> bool:
    visible_us, *_, receipt = entry
    return receipt.state is State.HELD and receipt.visible_us == visible_us
