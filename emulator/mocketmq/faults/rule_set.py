"""Adds, matches and removes the fault rules of a broker, and keeps them in the store across restarts.

Protocols must check ``of_requests`` first, so that requests pay nothing for faults while there are no rules.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from mocketmq.clock import LATEST_US, rate_of, wall_us
from mocketmq.errors import (
    EmulatorError,
    FaultNotFoundError,
    InjectedError,
    InvalidArgumentError,
    StoreBusyError,
    StoreError,
)
from mocketmq.event_loop import completed
from mocketmq.faults.injector import FaultInjector, Injection, RequestAttributes
from mocketmq.faults.rule import OF_DELIVERIES, OF_OUTAGES, OF_REPLICATION, FaultRule
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

_ADD: Final = "INSERT INTO faults VALUES (?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM faults WHERE name = ?"
_COUNT: Final = "UPDATE faults SET matched = ?, fired = ? WHERE name = ?"
_RECORD_REQUEST: Final = """
INSERT INTO fault_hits (at_us, fault, do, door, operation, next_offset, unique_key, topic, group_name, to_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_RECORD_DELIVERY: Final = """
INSERT INTO fault_hits (at_us, fault, do, door, operation, next_offset, unique_key)
SELECT ?, ?, ?, '', 'delivery', ?, unique_key FROM messages WHERE log_offset = ?"""
_EVERY: Final = "every request"
"""Name of the operation that is recorded for an outage."""
_RECORD_END: Final = """
UPDATE fault_hits SET to_us = ?1 WHERE (to_us IS NULL OR to_us > ?1) AND rowid = (
 SELECT max(rowid) FROM fault_hits WHERE fault = ?2 AND operation = ?3)"""
_BACK: Final = "INSERT OR REPLACE INTO counters VALUES ('fault_back_us:' || ?, ?)"
_BACK_OF: Final = "SELECT value FROM counters WHERE name = 'fault_back_us:' || ?"
_FORGET_BACK: Final = "DELETE FROM counters WHERE name = 'fault_back_us:' || ?"
T = TypeVar("T")


class FaultRules:
    """All rules, each with its injector. Changes are durable when their methods return.

    ``brokers`` contains the names of the cluster's brokers. Each broker has its own ports for
    ``outage_doors``. ``has_slaves`` says whether the brokers have slaves.
    """

    def __init__(
        self, store: Store, brokers: Sequence[str], outage_doors: Collection[str], *, has_slaves: bool
    ) -> None:
        self.of_requests: tuple[FaultInjector, ...] = ()
        self.of_deliveries: tuple[FaultInjector, ...] = ()
        self.of_outages: tuple[FaultInjector, ...] = ()
        self.of_replication: tuple[FaultInjector, ...] = ()
        self._has_slaves = has_slaves
        self._store = store
        self._brokers = brokers
        self._outage_doors = outage_doors
        self._by_name: dict[str, FaultInjector] = {}
        self._operations: dict[str, Callable[[], Iterable[str]]] = {}
        # ``while_removed`` is called in transactions that remove a rule, ``once_changed`` after each change.
        self.while_removed: list[Callable[[Batch, FaultInjector], None]] = []
        self.once_changed: list[Callable[[], Awaitable[None]]] = []

    async def tell_changed(self) -> None:
        """Call the listeners for changes. Also needed after :meth:`reload`, which does not call them."""
        for listener in self.once_changed:
            await listener()

    def __iter__(self) -> Iterator[FaultInjector]:
        return iter(self._by_name.values())

    def get(self, name: str) -> FaultInjector:
        """The rule of this name. Raises FaultNotFoundError."""
        found = self._by_name.get(name)
        if found is None:
            raise FaultNotFoundError(f"no fault is named {name[:80]!r}")
        return found

    def declare(self, door: str, operations: Callable[[], Iterable[str]]) -> None:
        """Register an open protocol. ``operations`` returns all names of its operations."""
        self._operations[door] = operations

    async def load(self) -> None:
        """Load the last run's rules from the store."""
        for name, rule, made_us, matched, fired in await self._store.database.rows("SELECT * FROM faults"):
            fault = FaultInjector(msgspec.json.decode(rule, type=FaultRule), name, made_us)
            fault.matched, fault.fired = matched, fired
            for (back_wall_us,) in await self._store.database.rows(_BACK_OF, (name,)):
                fault.back_wall_us = back_wall_us
            self._by_name[name] = fault
        self._sort()

    async def reload(self) -> None:
        """Read the rules again from a restored store. Releases the requests that the former rules hold."""
        self.close()
        self._by_name.clear()
        await self.load()

    async def declare_rule(self, rule: FaultRule, number: int) -> None:
        """Add a rule from the settings. The rule replaces an earlier run's rule of the same name."""
        name = f"settings-{number}" if rule.name is UNSET else rule.name
        rule = msgspec.structs.replace(rule, name=name)
        known = self._by_name.get(name)
        if known is not None and known.rule == rule:
            known.recount(0, 0)
            return
        if known is not None:
            await self.remove_rules(name)
        await self.add_rule(rule)

    @completed
    async def add_rule(self, rule: FaultRule) -> FaultInjector:
        """Add a rule, which applies at once. Raises InvalidArgumentError.

        Raises StoreBusyError if a snapshot is restored meanwhile.
        """
        self._check_place(rule)
        name = self._name_of(rule)
        fault = FaultInjector(rule, name, self._store.clock.now_us())
        self._by_name[name] = fault  # reserves the name during the transaction
        row = (name, msgspec.json.encode(rule).decode(), fault.made_us, 0, 0)

        def work(batch: Batch) -> None:
            if self._by_name.get(name) is not fault:
                raise StoreBusyError("a snapshot was restored meanwhile; add the rule again")
            batch.execute(_ADD, row)

        try:
            await self._store.writer.commit(work)
        except BaseException:
            if self._by_name.get(name) is fault:
                del self._by_name[name]
            raise
        self._sort()
        await self.tell_changed()
        return fault

    def _name_of(self, rule: FaultRule) -> str:
        if rule.name is not UNSET:
            if rule.name in self._by_name:
                raise InvalidArgumentError("name", rule.name, "a name that no other fault uses")
            return rule.name
        number = 1
        while f"fault-{number}" in self._by_name:
            number += 1
        return f"fault-{number}"

    def _check_place(self, rule: FaultRule) -> None:
        """Raise InvalidArgumentError for an unknown protocol, broker or operation."""
        doors = self._operations
        if rule.door is not UNSET:
            if rule.door not in doors:
                raise InvalidArgumentError("door", rule.door, ", ".join(doors))
            doors = {rule.door: doors[rule.door]}
        if rule.broker is not UNSET:
            self._check_broker(rule)
        if rule.do == "twice" and "remoting" not in doors:
            raise InvalidArgumentError(
                "door", rule.door, "remoting, because an HTTP request cannot be answered twice"
            )
        if rule.do == "name-server-away" and "remoting" not in self._operations:
            raise InvalidArgumentError(
                "do", rule.do, "other faults: name-server-away needs remoting, which is off"
            )
        if rule.do == "replicate-late" and not self._has_slaves:
            raise InvalidArgumentError(
                "do", rule.do, "other faults: replicate-late needs slaves; start with --slaves 1"
            )
        if rule.operation is UNSET:
            return
        names = {name for operations in doors.values() for name in operations()}
        if rule.operation not in names:
            words = sorted(filter(str.islower, names))
            allowed = f"{', '.join(words)}; and remoting's requests by name or number, as text"
            raise InvalidArgumentError("operation", rule.operation, allowed)

    def _check_broker(self, rule: FaultRule) -> None:
        """Raise InvalidArgumentError for an unknown broker, or a door whose requests name no broker."""
        if rule.broker not in self._brokers:
            raise InvalidArgumentError("broker", rule.broker, " or ".join(self._brokers))
        of_one = self._outage_doors if rule.do == "broker-away" else ("remoting", "grpc")
        if len(self._brokers) > 1 and rule.door not in (UNSET, *of_one):
            allowed = f"{' or '.join(of_one)} with broker; other doors belong to the cluster as a whole"
            raise InvalidArgumentError("door", rule.door, allowed)

    @completed
    async def remove_rules(self, *names: str) -> Sequence[FaultInjector]:
        """Remove these rules. If one does not exist, raise FaultNotFoundError and remove none."""
        removed = [self.get(name) for name in names]
        await self._store.writer.commit(partial(self._remove, removed), alone=True)
        await self.tell_changed()
        return removed

    async def clear(self) -> Sequence[FaultInjector]:
        return await self.remove_rules(*self._by_name)

    def _remove(self, faults: Sequence[FaultInjector], batch: Batch) -> None:
        for fault in faults:
            batch.execute(_REMOVE, (fault.name,))
            batch.execute(_FORGET_BACK, (fault.name,))
            if fault.rule.do in OF_OUTAGES:
                self._end_outage(fault, batch)
            for listener in self.while_removed:
                listener(batch, fault)
        batch.on_commit(partial(self._removed, faults))

    def _removed(self, faults: Sequence[FaultInjector]) -> None:
        for fault in faults:
            self._by_name.pop(fault.name, None)
            fault.gone.set()
        self._sort()

    def _sort(self) -> None:
        self.of_deliveries = tuple(fault for fault in self if fault.rule.do in OF_DELIVERIES)
        self.of_outages = tuple(fault for fault in self if fault.rule.do in OF_OUTAGES)
        self.of_replication = tuple(fault for fault in self if fault.rule.do in OF_REPLICATION)
        of_name_servers = (one for one in self.of_outages if one.rule.do == "name-server-away")
        others = {*self.of_deliveries, *self.of_replication, *of_name_servers}
        self.of_requests = tuple(fault for fault in self if fault not in others)

    def close(self) -> None:
        """Release held requests."""
        for fault in self:
            fault.gone.set()

    def injection_for(self, attributes: RequestAttributes) -> Injection | None:
        """Return the injection of the first rule that fires; earlier rules count their matches, too."""
        now_us = self._store.clock.now_us()
        for fault in self.of_requests:
            if fault.matches(attributes) and fault.fires(now_us):
                return Injection(fault, fault.draw_us())
        return None

    async def begin_outage(self, fault: FaultInjector) -> None:
        """Record the start and the planned end of an outage."""
        fault.recount(1, 1)
        if fault.rule.back_after is not UNSET:
            fault.back_wall_us = wall_us() + fault.draw_us()
        door = "" if fault.rule.door is UNSET else fault.rule.door

        def work(batch: Batch) -> None:
            self.count(batch, fault)
            to_us = None if fault.to_us > LATEST_US else fault.to_us
            row = (batch.now_us, fault.name, fault.rule.do, door, _EVERY, batch.next_log_offset)
            batch.execute(_RECORD_REQUEST, (*row, None, None, None, to_us))
            if fault.back_wall_us is not None:
                batch.execute(_BACK, (fault.name, fault.back_wall_us))

        with suppress(StoreError):  # the outage continues, even if it is not recorded
            await self._store.writer.commit(work)

    async def end_outage(self, fault: FaultInjector) -> None:
        """Record the early end of an outage."""
        with suppress(StoreError):
            await self._store.writer.commit(partial(self._end_outage, fault))

    def _end_outage(self, fault: FaultInjector, batch: Batch) -> None:
        batch.execute(_RECORD_END, (batch.now_us, fault.name, _EVERY))

    def count(self, batch: Batch, fault: FaultInjector) -> None:
        """Save the fault's numbers of matches and injected faults."""
        batch.execute(_COUNT, (fault.matched, fault.fired, fault.name))

    def record_delivery(self, batch: Batch, fault: FaultInjector, at_us: int, record_offset: int) -> None:
        """Record a fault injected into the delivery of the message with this record."""
        row = (at_us, fault.name, fault.rule.do, batch.next_log_offset, record_offset)
        batch.execute(_RECORD_DELIVERY, row)

    async def record_request(
        self, injection: Injection, attributes: RequestAttributes, unique_key: str | None
    ) -> None:
        """Record a fault injected into a request, for the message's history and for reports."""
        fault = injection.fault
        late_us = round(injection.late_us * rate_of(self._store.clock.mode)) if fault.rule.do == "late" else 0

        def work(batch: Batch) -> None:
            self.count(batch, fault)
            row = (batch.now_us, fault.name, fault.rule.do, attributes.door, attributes.operations[0])
            to_us = batch.now_us + late_us if late_us else None
            about = (unique_key, attributes.topic, attributes.group, to_us)
            batch.execute(_RECORD_REQUEST, (*row, batch.next_log_offset, *about))

        with suppress(StoreError):  # the fault is injected, even if it is not recorded
            await self._store.writer.commit(work)

    async def carry_out(
        self,
        injection: Injection,
        attributes: RequestAttributes,
        act: Callable[[], Awaitable[T]],
        key_of: Callable[[T], str | None] = lambda _answer: None,
    ) -> T:
        """Run ``act`` with the fault applied. ``key_of`` extracts the unique key from the response.

        Raises the errors of ``act`` and of the rule, and Unanswered.
        """
        fault, late_us = injection
        key = attributes.unique_key
        if fault.is_before:
            await self.record_request(injection, attributes, key)
            await fault.carry_out(late_us)
            return await act()
        try:
            answer = await act()
        except EmulatorError:
            await self.record_request(injection, attributes, key)
            with suppress(InjectedError):
                await fault.carry_out(late_us)
            raise
        await self.record_request(injection, attributes, key or key_of(answer))
        try:
            await fault.carry_out(late_us)
        except InjectedError as injected:
            injected.answer = answer
            raise
        return answer
