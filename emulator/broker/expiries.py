"""When receipts run out."""

import heapq
import itertools
from collections.abc import Callable

from emulator.broker.groups import Group, Take

SPARE = 500


class Expiries:
    """A heap of open takes by the time at which they become visible again.

    A take that was settled or extended leaves its old entry behind; it is passed over, and all of these
    are removed when there are more of them than of others.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        # The numbers tell a group from one of the same name that was deleted.
        self._entries: list[tuple[int, int, str, int, Group]] = []
        self._numbers = itertools.count()
        self._crowded = SPARE

    def expect(self, group: Group, take: Take) -> None:
        """The take becomes visible again at its ``visible_us``."""
        entry = (take.visible_us, take.commit_offset, group.name, next(self._numbers), group)
        heapq.heappush(self._entries, entry)
        if len(self._entries) > self._crowded:
            self._entries = [entry for entry in self._entries if _expiring(*entry)]
            heapq.heapify(self._entries)
            self._crowded = 2 * len(self._entries) + SPARE
        if self._entries[0][1] == take.commit_offset:
            self._changed()

    def next_us(self) -> int | None:
        """When the next one runs out."""
        entries = self._entries
        while entries and _expiring(*entries[0]) is None:
            heapq.heappop(entries)
        return entries[0][0] if entries else None

    def pop(self, until_us: int, limit: int) -> list[tuple[Group, Take]]:
        """Up to ``limit`` that run out by ``until_us``, the earliest first."""
        popped: list[tuple[Group, Take]] = []
        while len(popped) < limit and (next_us := self.next_us()) is not None and next_us <= until_us:
            _, commit_offset, *_, group = heapq.heappop(self._entries)
            popped.append((group, group.takes[commit_offset]))
        return popped


def _expiring(visible_us: int, commit_offset: int, _name: str, _number: int, group: Group) -> Take | None:
    take = group.takes.get(commit_offset)
    if take is None or take.visible_us != visible_us or take.is_available or take.is_settling:
        return None
    return take
