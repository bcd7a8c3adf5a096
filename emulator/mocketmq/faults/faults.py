"""Every rule of a broker: added, found, removed; kept in the store, so that a restart has them as well.

``of_requests`` is what doors look at first: it is empty, and costs nothing, while there is no rule for them.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from mocketmq.clock import LATEST_US, rate_of, wall_us
from mocketmq.errors import FaultNotFoundError, InvalidArgumentError, StoreError
from mocketmq.faults.fault import Fault, FaultyRequest, Hit
from mocketmq.faults.rule import OF_DELIVERIES, OF_OUTAGES, FaultRule
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

_ADD: Final = "INSERT INTO faults VALUES (?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM faults WHERE name = ?"
_COUNT: Final = "UPDATE faults SET matched = ?, fired = ? WHERE name = ?"
_STRUCK: Final = """
INSERT INTO fault_hits (at_us, fault, do, door, operation, next_offset, unique_key, topic, group_name, to_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_STRUCK_DELIVERY: Final = """
INSERT INTO fault_hits (at_us, fault, do, door, operation, next_offset, unique_key)
SELECT ?, ?, ?, '', 'delivery', ?, unique_key FROM messages WHERE log_offset = ?"""
_EVERY: Final = "every request"
"""The operation that an absence strikes."""
_ENDED: Final = """
UPDATE fault_hits SET to_us = ?1 WHERE (to_us IS NULL OR to_us > ?1) AND rowid = (
 SELECT max(rowid) FROM fault_hits WHERE fault = ?2 AND operation = ?3)"""
_BACK: Final = "INSERT OR REPLACE INTO counters VALUES ('fault_back_us:' || ?, ?)"
_BACK_OF: Final = "SELECT value FROM counters WHERE name = 'fault_back_us:' || ?"
_FORGET_BACK: Final = "DELETE FROM counters WHERE name = 'fault_back_us:' || ?"


class Faults:
    """Made by :func:`open_faults`. Changes are durable when their methods return."""

    def __init__(self, store: Store) -> None:
        self.of_requests: tuple[Fault, ...] = ()
        self.of_deliveries: tuple[Fault, ...] = ()
        self.of_outages: tuple[Fault, ...] = ()
        self._store = store
        self._by_name: dict[str, Fault] = {}
        self._operations: dict[str, frozenset[str]] = {}
        self._while_removed: list[Callable[[Batch, Fault], None]] = []
        self._once_changed: list[Callable[[], Awaitable[None]]] = []

    def while_removed(self, listener: Callable[[Batch, Fault], None]) -> None:
        """Call it in each transaction that ends a rule."""
        self._while_removed.append(listener)

    def once_changed(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call it after rules were added or ended."""
        self._once_changed.append(listener)

    async def _tell_changed(self) -> None:
        for listener in self._once_changed:
            await listener()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Fault:
        """The rule of this name. Raises FaultNotFoundError."""
        found = self._by_name.get(name)
        if found is None:
            raise FaultNotFoundError(f"no fault has the name {name[:80]!r}")
        return found

    def declare(self, door: str, operations: Iterable[str]) -> None:
        """Register an open door with every name of its operations."""
        self._operations[door] = frozenset(operations)

    async def load(self) -> None:
        """Read the rules of the last run."""
        for name, rule, made_us, matched, fired in await self._store.database.rows("SELECT * FROM faults"):
            fault = Fault(msgspec.json.decode(rule, type=FaultRule), name, made_us)
            fault.matched, fault.fired = matched, fired
            for (back_wall_us,) in await self._store.database.rows(_BACK_OF, (name,)):
                fault.back_wall_us = back_wall_us
            self._by_name[name] = fault
        self._sort()

    async def declare_rule(self, rule: FaultRule, number: int) -> None:
        """Begin with a rule of the settings, in the place of one that a run before has left."""
        name = f"settings-{number}" if rule.name is UNSET else rule.name
        rule = msgspec.structs.replace(rule, name=name)
        known = self._by_name.get(name)
        if known is not None and known.rule == rule:
            known.recount(0, 0)
            return
        if known is not None:
            await self.remove(name)
        await self.add(rule)

    async def add(self, rule: FaultRule) -> Fault:
        """Begin with a rule. Raises InvalidArgumentError."""
        self._check_place(rule)
        name = self._name_of(rule)
        fault = Fault(rule, name, self._store.clock.now_us())
        self._by_name[name] = fault  # nobody else gets the name meanwhile
        try:
            row = (name, msgspec.json.encode(rule).decode(), fault.made_us, 0, 0)
            await self._store.writer.commit(lambda batch: batch.execute(_ADD, row))
        except BaseException:
            del self._by_name[name]
            raise
        self._sort()
        await self._tell_changed()
        return fault

    def _name_of(self, rule: FaultRule) -> str:
        if rule.name is not UNSET:
            if rule.name in self._by_name:
                raise InvalidArgumentError("name", rule.name, "a name that no other fault has")
            return rule.name
        number = 1
        while f"fault-{number}" in self._by_name:
            number += 1
        return f"fault-{number}"

    def _check_place(self, rule: FaultRule) -> None:
        """Raise InvalidArgumentError for an unknown door or operation."""
        doors = self._operations
        if rule.door is not UNSET:
            if rule.door not in doors:
                raise InvalidArgumentError("door", rule.door, ", ".join(doors))
            doors = {rule.door: doors[rule.door]}
        if rule.do == "twice" and "remoting" not in doors:
            raise InvalidArgumentError("door", rule.door, "remoting: over HTTP no request has two answers")
        if rule.do == "name-server-away" and "remoting" not in self._operations:
            raise InvalidArgumentError(
                "do", rule.do, "other faults: name-server-away needs remoting, which is off"
            )
        if rule.operation is not UNSET and not any(rule.operation in names for names in doors.values()):
            words = sorted({name for names in doors.values() for name in names if name.islower()})
            allowed = f"{', '.join(words)}; and remoting's requests by name or number, as text"
            raise InvalidArgumentError("operation", rule.operation, allowed)

    async def remove(self, *names: str) -> Sequence[Fault]:
        """End these rules. Raises FaultNotFoundError, and then ends none."""
        removed = [self.get(name) for name in names]
        await self._store.writer.commit(partial(self._remove, removed), alone=True)
        await self._tell_changed()
        return removed

    async def clear(self) -> Sequence[Fault]:
        """End every rule."""
        return await self.remove(*self._by_name)

    def _remove(self, faults: Sequence[Fault], batch: Batch) -> None:
        for fault in faults:
            batch.execute(_REMOVE, (fault.name,))
            batch.execute(_FORGET_BACK, (fault.name,))
            if fault.rule.do in OF_OUTAGES:
                self._end_absence(fault, batch)
            for listener in self._while_removed:
                listener(batch, fault)
        batch.on_commit(partial(self._removed, faults))

    def _removed(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            self._by_name.pop(fault.name, None)
            fault.gone.set()
        self._sort()

    def _sort(self) -> None:
        self.of_deliveries = tuple(fault for fault in self if fault.rule.do in OF_DELIVERIES)
        self.of_outages = tuple(fault for fault in self if fault.rule.do in OF_OUTAGES)
        others = {*self.of_deliveries, *(one for one in self.of_outages if one.rule.do == "name-server-away")}
        self.of_requests = tuple(fault for fault in self if fault not in others)

    def close(self) -> None:
        """Let go of requests that are held."""
        for fault in self:
            fault.gone.set()

    def hit(self, request: FaultyRequest) -> Hit | None:
        """The first fault that strikes the request; each rule that fits before it has counted it."""
        now_us = self._store.clock.now_us()
        for fault in self.of_requests:
            if fault.fits(request) and fault.strikes(now_us):
                return Hit(fault, fault.draw_us())
        return None

    async def begin_absence(self, fault: Fault) -> None:
        """Keep that a fault has begun to shut ports, and until when."""
        fault.recount(1, 1)
        if fault.rule.back_after is not UNSET:
            fault.back_wall_us = wall_us() + fault.draw_us()
        door = "" if fault.rule.door is UNSET else fault.rule.door

        def work(batch: Batch) -> None:
            self.count(batch, fault)
            to_us = None if fault.to_us > LATEST_US else fault.to_us
            row = (batch.now_us, fault.name, fault.rule.do, door, _EVERY, batch.next_log_offset)
            batch.execute(_STRUCK, (*row, None, None, None, to_us))
            if fault.back_wall_us is not None:
                batch.execute(_BACK, (fault.name, fault.back_wall_us))

        with suppress(StoreError):  # the fault goes on
            await self._store.writer.commit(work)

    async def end_absence(self, fault: Fault) -> None:
        """Keep that the ports are open again, before the clock says so or the rule is removed."""
        with suppress(StoreError):
            await self._store.writer.commit(partial(self._end_absence, fault))

    def _end_absence(self, fault: Fault, batch: Batch) -> None:
        batch.execute(_ENDED, (batch.now_us, fault.name, _EVERY))

    def count(self, batch: Batch, fault: Fault) -> None:
        """Keep the counts of a fault."""
        batch.execute(_COUNT, (fault.matched, fault.fired, fault.name))

    def record_delivery(self, batch: Batch, fault: Fault, at_us: int, record_offset: int) -> None:
        """Keep that the fault struck the delivery of the message with this record."""
        row = (at_us, fault.name, fault.rule.do, batch.next_log_offset, record_offset)
        batch.execute(_STRUCK_DELIVERY, row)

    async def record(self, hit: Hit, request: FaultyRequest, unique_key: str | None) -> None:
        """Keep that the fault struck a request, for the history of its message and for reports."""
        fault = hit.fault
        late_us = round(hit.late_us * rate_of(self._store.clock.mode)) if fault.rule.do == "late" else 0

        def work(batch: Batch) -> None:
            self.count(batch, fault)
            row = (batch.now_us, fault.name, fault.rule.do, request.door, request.operations[0])
            about = (unique_key, request.topic, request.group, batch.now_us + late_us if late_us else None)
            batch.execute(_STRUCK, (*row, batch.next_log_offset, *about))

        with suppress(StoreError):  # the fault goes on
            await self._store.writer.commit(work)


async def open_faults(store: Store) -> Faults:
    """The rules of the last run. Raises a StoreError."""
    faults = Faults(store)
    await faults.load()
    return faults
