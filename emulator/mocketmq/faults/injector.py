"""Applies one fault rule: matches requests and deliveries, and decides which matches get the fault."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from random import Random
from typing import Final, Literal, NamedTuple

from msgspec import UNSET

from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S, wall_us
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.faults.refusals import DISK_FULL, READ_ONLY, refusal_named
from mocketmq.faults.rule import FaultRule, Operation, check_fields, lateness

State = Literal["waiting", "active", "spent", "over"]

_CUT_OFF: Final = ("http", "aliyun")
"""Protocols on the port of the JSON API, which stays open in an outage, so their requests are refused."""
_WRITES: Final[Mapping[str, tuple[Operation, ...]]] = {
    "read-only": ("send",),
    "disk-full": ("send", "give-back", "end-transaction"),
}
"""The operations that a broker-wide kind of fault refuses, by kind."""


class RequestAttributes(NamedTuple):
    """The attributes of a request that rules match. ``operations`` contains all names of its operation.

    ``broker`` is None if the request does not say which broker of a cluster it is for.
    """

    door: str
    operations: tuple[str, ...]
    topic: str | None
    group: str | None
    clients: tuple[str, ...]  # id, host:port, host
    unique_key: str | None = None  # unique key of the request's message
    broker: str | None = None


class Injection(NamedTuple):
    """A ``fault`` to inject into a request, and its delay, which must be drawn before the next match."""

    fault: "FaultInjector"
    late_us: int


class Unanswered(Exception):  # noqa: N818 - not an error
    """A fault drops the response and, if ``closes`` is set, also closes the connection."""

    def __init__(self, fault: "FaultInjector") -> None:
        super().__init__(fault.name)
        self.fault = fault
        self.closes = fault.rule.do in ("close", "broker-away")


class FaultInjector:
    """Applies a rule. ``matched`` counts matches, ``fired`` injected faults. Raises InvalidArgumentError.

    Random draws for the nth match depend only on the seed and n, so equal seeds give equal faults.
    """

    def __init__(self, rule: FaultRule, name: str, made_us: int) -> None:
        check_fields(rule)
        self.rule = rule
        self.name = name
        self.made_us = made_us
        self.matched = 0
        self.fired = 0
        self.back_wall_us: int | None = None  # when an outage ends, by the wall clock
        self.gone = asyncio.Event()  # set when the rule is removed
        self.from_us = made_us if rule.from_ms is UNSET else rule.from_ms * US_PER_MS
        self.to_us = LATEST_US + 1 if rule.to_ms is UNSET else rule.to_ms * US_PER_MS
        if rule.lasts is not UNSET:
            self.to_us = self.from_us + parse_duration_us(rule.lasts, "lasts")
        if self.to_us <= self.from_us:
            raise InvalidArgumentError("to_ms", self.to_us // US_PER_MS, "an instant after from_ms")
        self._refusal = {"read-only": READ_ONLY, "disk-full": DISK_FULL}.get(rule.do)
        if rule.error is not UNSET:
            self._refusal = refusal_named(rule.error, rule.door or None)
        self._lateness = None if rule.by is UNSET else lateness(rule.by)
        if rule.back_after is not UNSET:
            self._lateness = lateness(rule.back_after, "back_after")
        self._most = LATEST_US if rule.next is UNSET else rule.next
        self._every = 1 if rule.every is UNSET else rule.every
        self._probability = 1.0 if rule.probability is UNSET else rule.probability
        self._seed = 0 if rule.seed is UNSET else rule.seed
        self._operations: tuple[str, ...] | None = _WRITES.get(rule.do)
        if rule.operation is not UNSET:
            self._operations = (rule.operation,)

    @property
    def is_before(self) -> bool:
        """Whether the fault is injected before the request is served."""
        if self._refusal is not None:
            return not self._refusal.is_after
        return self.rule.stage == "before" or self.rule.do == "broker-away"

    @property
    def is_back(self) -> bool:
        """Whether the outage is over, by real time."""
        return self.back_wall_us is not None and wall_us() >= self.back_wall_us

    def state(self, now_us: int) -> State:
        """Whether the rule can inject faults now, later, or never again."""
        if now_us >= self.to_us or self.is_back:
            return "over"
        if self.fired >= self._most:
            return "spent"
        return "waiting" if now_us < self.from_us else "active"

    def matches(self, request: RequestAttributes) -> bool:
        rule, topic, group = self.rule, request.topic, request.group
        if rule.do == "broker-away" and (not self.fired or request.door not in _CUT_OFF):
            return False
        return (
            rule.door in (UNSET, request.door)
            and rule.broker in (UNSET, request.broker)
            and (self._operations is None or any(each in self._operations for each in request.operations))
            and (rule.topic is UNSET or (topic is not None and fnmatchcase(topic, rule.topic)))
            and (rule.group is UNSET or (group is not None and fnmatchcase(group, rule.group)))
            and (rule.client is UNSET or any(fnmatchcase(each, rule.client) for each in request.clients))
        )

    def matches_delivery(self, broker: str, topic: str, level: int | None) -> bool:
        rule = self.rule
        return (
            rule.broker in (UNSET, broker)
            and (rule.topic is UNSET or fnmatchcase(topic, rule.topic))
            and rule.level in (UNSET, level)
        )

    @property
    def repeats(self) -> int:
        """The number of repeats of each delivery."""
        if self.rule.do != "deliver-again":
            return 0
        return 1 if self.rule.times is UNSET else self.rule.times

    @property
    def interval_us(self) -> int:
        """The minimum time between two deliveries."""
        return 0 if self.rule.per_second is UNSET else -(-US_PER_S // self.rule.per_second)

    def recount(self, matched: int, fired: int) -> None:
        """Restore the counts of an earlier run."""
        self.matched, self.fired = matched, fired

    def fires(self, now_us: int) -> bool:
        """Count a match, and return whether the rule injects its fault into it."""
        if self.state(now_us) != "active":
            return False
        self.matched += 1
        if self.matched % self._every:
            return False
        if self._probability < 1 and self._random().random() >= self._probability:
            return False
        self.fired += 1
        return True

    def draw_us(self) -> int:
        """Draw the delay of the last injected fault, in microseconds."""
        if self._lateness is None:
            return 0
        random = self._random()
        random.random()  # the first draw decided whether to inject
        return self._lateness(random)

    def _random(self) -> Random:
        return Random(f"{self._seed}/{self.matched}")  # noqa: S311 - must be reproducible

    async def carry_out(self, late_us: int) -> None:
        """Refuse, delay or drop the response to a request. Raises an EmulatorError, Unanswered."""
        if self._refusal is not None:
            raise self._refusal.error(self.name)
        if self.rule.do == "late":
            with suppress(TimeoutError):
                async with asyncio.timeout(late_us / US_PER_S):
                    await self.gone.wait()
        if self.rule.do in ("never", "close", "broker-away"):
            raise Unanswered(self)
