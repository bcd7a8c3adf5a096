"""A broker in memory with one partition of a delay topic, whose calls fail when a test requests it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Literal, NamedTuple

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.relay.partition import LostPartitionError, RelayedMessage, RetryableError, Settled

Failure = Literal["trouble", "lost before", "lost after"]
"""Failures of a call: a temporary failure, or loss of the hold before or after the call takes effect."""


class Sent(NamedTuple):
    """A message of the delay topic."""

    number: int
    due_us: int


class Out(NamedTuple):
    """A message that was forwarded, and when."""

    number: int
    at_us: int


class LogBroker:
    """State that survives relays: the delay topic, its read offset, the pending log, forwarded messages."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.out: list[Out] = []
        self.log: list[RelayedMessage | Settled] = []
        self.position = 0
        self.holds = 0  # each hold ends the previous hold
        self.failures: deque[Failure] = deque()  # failures of the next calls
        self.stay: set[int] = set()  # numbers of messages that cannot be forwarded now
        self.changed = asyncio.Condition()

    async def send(self, delay_ms: int) -> Sent:
        """Send a message to the delay topic."""
        due_us = (wall_us() // US_PER_MS + 1 + delay_ms) * US_PER_MS
        self.sent.append(Sent(len(self.sent), due_us))
        await self.tell()
        return self.sent[-1]

    async def tell(self) -> None:
        """Notify waiters of a change."""
        async with self.changed:
            self.changed.notify_all()

    async def until_out(self, count: int) -> None:
        """Wait until this many messages have been forwarded."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.out) >= count)


class LogPartition:
    """A relay's view of the partition."""

    def __init__(self, broker: LogBroker, name: str = "delayed-0") -> None:
        self.name = name
        self.refused = 0
        self.restored = 0
        self.closed = 0
        self._broker = broker
        self._hold = 0
        self._read = 0

    def _check(self) -> None:
        if self._hold != self._broker.holds:
            raise LostPartitionError("another relay has taken it over")

    def _fails(self, when: Sequence[Failure]) -> bool:
        """Whether the call fails in this way, which uses up the failure."""
        failures = self._broker.failures
        if failures and failures[0] in when:
            if failures.popleft() == "trouble":
                raise RetryableError("not now")
            return True
        return False

    async def restore(self) -> AsyncGenerator[Sequence[RelayedMessage | Settled], None]:
        """Yield the log in small pieces."""
        self._broker.holds += 1
        self._hold, self._read = self._broker.holds, self._broker.position
        for start in range(0, len(self._broker.log), 3):
            await asyncio.sleep(0)
            yield self._broker.log[start : start + 3]
        self.restored += 1
        await self._broker.tell()

    async def arrivals(self) -> Sequence[Sent]:
        """Return up to four messages."""
        async with self._broker.changed:
            await self._broker.changed.wait_for(
                lambda: len(self._broker.sent) > self._read or self._hold != self._broker.holds
            )
        self._check()
        some = self._broker.sent[self._read : self._read + 4]
        self._read += len(some)
        return some

    async def keep(self, arrivals: Sequence[Sent]) -> Sequence[RelayedMessage]:
        """Append to the pending log, completely or not at all."""
        await asyncio.sleep(0)
        self._check()
        if self._fails(("trouble", "lost before")):
            raise LostPartitionError("the connection broke before")
        pending = [RelayedMessage(f"id-{one.number}", one.number, one.due_us, b"body") for one in arrivals]
        self._broker.log += pending
        self._broker.position = arrivals[-1].number + 1
        if self._fails(("lost after",)):
            raise LostPartitionError("the connection broke after")
        return pending

    async def forward(self, due: Sequence[RelayedMessage]) -> Collection[str]:
        """Forward all messages or none, except messages that cannot be forwarded now."""
        await asyncio.sleep(0)
        self._check()
        if self._fails(("trouble", "lost before")):
            raise LostPartitionError("the connection broke before")
        able = [one for one in due if one.number not in self._broker.stay]
        self._broker.out += [Out(one.number, wall_us()) for one in able]
        self._broker.log += [Settled(one.number, one.due_us) for one in able]
        await self._broker.tell()
        if self._fails(("lost after",)):
            raise LostPartitionError("the connection broke after")
        return [one.id for one in able]

    async def close(self) -> None:
        """End the hold."""
        self.closed += 1
