"""Events since the last reset, for the report of a failed test: messages, faults, brokers, clock moves.

Each request reads the newest rows of each kind from the store. Events at the same instant are in the order of
their messages, because the store has the times of takes, but not their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.life import Event, Lives, broker_changed, move
from mocketmq.broker.message_records import RECORDS, FaultRecord, ReceiptRecord, RecordRow
from mocketmq.broker.registry.brokers import BrokerChange
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

_NEWEST: Final = f"{RECORDS} ORDER BY m.log_offset DESC LIMIT ?"
_RECEIPTS: Final = """
SELECT group_name, log_offset, times, first_taken_us, last_taken_us, visible_us, settled_us, outcome,
 attempts
FROM receipts WHERE group_name = ? ORDER BY log_offset DESC LIMIT ?"""
_MOVES: Final = """
SELECT from_us, to_us FROM clock_moves
WHERE from_us <> to_us
 AND move > coalesce((SELECT value FROM counters WHERE name = 'reset_at_move'), 0)
ORDER BY move DESC LIMIT ?"""
_FAULTS: Final = """
SELECT unique_key, next_offset, topic, group_name, at_us, fault, do, door, operation FROM fault_hits
ORDER BY rowid DESC LIMIT ?"""
_ABOVE_ALL: Final = (1 << 63) - 1
"""Above the number of any message."""
_EXPECTED: Final = ("due", "visible")
"""Kinds of events that follow from earlier events."""


@dataclass(eq=False, repr=False)
class Events:
    """Collects events."""

    _store: Store
    _groups: ConsumingGroups
    _schemes: SchemeSet
    _lives: Lives
    _broker_changes: Sequence[BrokerChange]

    async def newest(self, limit: int) -> tuple[list[Event], bool]:
        """The newest events, oldest first, and whether there are older ones. Raises a StoreError."""
        waiting = await self._waiting(limit + 1)
        rows = [RecordRow._make(row) for row in await self._store.database.rows(_NEWEST, (limit + 1,))]
        found = [event for row in (*waiting, *rows) for event in self._lives.of_record(row)]
        by_offset = {row.log_offset: row for row in rows}
        for group in self._groups:
            for *values, attempts in await self._store.database.rows(_RECEIPTS, (group.name, limit + 1)):
                receipt = ReceiptRecord(*values)
                if receipt.log_offset in by_offset:
                    found += self._lives.of_receipt(by_offset[receipt.log_offset], receipt, attempts)
        found += self._lives.of_trail(rows)
        by_key = {row.unique_key: row for row in rows}
        faults = await self._store.database.rows(_FAULTS, (limit + 1,))
        for unique_key, next_offset, topic, group_name, *fault in reversed(faults):
            event = self._lives.of_fault(by_key.get(unique_key), FaultRecord(*fault), next_offset)
            found.append(event if event.topic else event._replace(topic=topic, group=group_name))
        found = [_labelled(event) for event in found if event.kind not in _EXPECTED]
        found += map(broker_changed, self._broker_changes)
        found += [move(*row) for row in await self._store.database.rows(_MOVES, (limit + 1,))]
        found.sort(key=lambda event: (event.at_us, event.order))
        return found[-limit:], len(found) > limit

    async def _waiting(self, limit: int) -> list[RecordRow]:
        """At least ``limit`` of the newest messages outside of the store, if there are that many."""
        found: list[RecordRow] = []
        number: int | None = _ABOVE_ALL
        while number is not None and len(found) < limit:
            messages, number = await self._schemes.newest_outside(number, limit)
            found += map(self._lives.waiting, messages)
        return found


def _labelled(event: Event) -> Event:
    return event._replace(text=f"{event.text}: {event.label}") if event.label else event
