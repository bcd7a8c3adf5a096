"""Keep messages invisible while push consumers work on them, as upstream (ReceiptHandleProcessor, 5.3.3).

A push consumer asks for no invisible time. Its messages are invisible for a minute, and longer each time that
is nearly over, while the client lives: up to three hours.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receipts import Taken
from mocketmq.clock import US_PER_S
from mocketmq.schedule.timer import Fired

FIRST_US: Final = 60 * US_PER_S
_STEPS_US: Final = tuple(minutes * 60 * US_PER_S for minutes in (1, 3, 5, 10, 30, 60))
_BEFORE_US: Final = 10 * US_PER_S
_LONGEST_US: Final = 3 * 3_600 * US_PER_S
_AFTER_CLIENT_US: Final = US_PER_S
"""When the messages of a client that has gone are visible again."""


@dataclass(slots=True)
class _Held:
    client_id: str
    until_us: int  # by the emulated clock, as are all of these
    end_us: int
    renewed: int = 0


_Key = tuple[str, str]  # group and receipt handle


class Renewals:
    """A due source. ``is_alive`` says whether a client is still connected."""

    def __init__(self, broker: Broker, is_alive: Callable[[str], bool]) -> None:
        self._broker = broker
        self._is_alive = is_alive
        self._held: dict[_Key, _Held] = {}
        self._due: list[tuple[int, _Key]] = []

    def hold(self, client_id: str, group: str, taken: Iterable[Taken]) -> None:
        """Renew these messages from now on."""
        for one in taken:
            end_us = one.visible_us - FIRST_US + _LONGEST_US
            self._held[group, one.handle] = _Held(client_id, one.visible_us, end_us)
            heapq.heappush(self._due, (one.visible_us - _BEFORE_US, (group, one.handle)))
        self._broker.timer.changed()

    def drop(self, group: str, handles: Iterable[str]) -> None:
        """Renew these no more: their client has settled them, or asked for a time of its own."""
        for handle in handles:
            self._held.pop((group, handle), None)

    async def release(self, client_id: str) -> None:
        """Make the messages of a client that has gone visible again, in a second."""
        gone: dict[str, list[str]] = {}
        for (group, handle), held in list(self._held.items()):
            if held.client_id == client_id:
                gone.setdefault(group, []).append(handle)
        for group, handles in gone.items():
            self.drop(group, handles)
            await self._broker.consuming.receipts.extend(group, handles, _AFTER_CLIENT_US)

    def next_due_us(self) -> int | None:
        """When the next invisible time is nearly over."""
        while self._due and not self._is_next(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _is_next(self, due_us: int, key: _Key) -> bool:
        held = self._held.get(key)
        return held is not None and held.until_us - _BEFORE_US == due_us

    async def fire(self, until_us: int) -> Fired:
        """Renew the next message that is due by then, if its client lives."""
        due_us = self.next_due_us()
        if due_us is None or due_us > until_us:
            return Fired(0, until_us)
        key = self._due[0][1]  # it stays until it is renewed: the store may fail
        held = self._held[key]
        now_us = max(due_us, self._broker.clock.now_us())
        if now_us >= held.end_us or not self._is_alive(held.client_id):
            del self._held[key]
            return Fired(0, due_us)
        step_us = _STEPS_US[min(held.renewed, len(_STEPS_US) - 1)]
        self._broker.clock.reach(due_us)
        group, handle = key
        settled = await self._broker.consuming.receipts.extend(group, [handle], step_us)
        if settled.done and key in self._held:
            held.renewed += 1
            held.until_us = now_us + step_us
            heapq.heappush(self._due, (held.until_us - _BEFORE_US, key))
        else:
            self._held.pop(key, None)
        return Fired(0, due_us)
