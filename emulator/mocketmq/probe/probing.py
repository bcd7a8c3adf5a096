"""Send delayed messages at a gentle rate, receive them, and keep what clocks said on the way."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError
from mocketmq.message.message_id import commit_offset_of, new_unique_key
from mocketmq.message.properties import DELAY, UNIQ_KEY, WAIT
from mocketmq.probe.cluster import Cluster, ProbedBroker, end_of, pull_ext, send_ext
from mocketmq.probe.connection import Account, ProbeError
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.record import Record, decode_properties, decode_records

MAX_RATE: Final = 200
_SUSPEND_MS: Final = 15_000
_AGAIN_S: Final = 1.0
_STORED: Final = (0, 10, 11, 12)
"""Success, and answers that only say what was not flushed or copied in time (ResponseCode.java)."""
_HOPELESS: Final = 10
"""If so many sends fail and none succeeds, the probe ends."""
_CLOCK_MESSAGES: Final = 5
"""Messages without delay to each broker, which bound the difference of the clocks in any case."""


class Plan(NamedTuple):
    """What is to be sent: ``each`` messages of each level, ``rate`` a second of ``size`` bytes."""

    name_servers: str
    topic: str
    group: str
    levels: tuple[int, ...]
    each: int
    rate: int
    size: int
    patience_us: int  # how long to wait for what is overdue
    account: Account | None = None

    @property
    def total(self) -> int:
        """How many delayed messages that are."""
        return self.each * len(self.levels)


@dataclass
class Sent:
    """A message that was sent; level 0 has no delay. Sent and answered by our wall clock."""

    key: str
    level: int
    broker: ProbedBroker
    sent_us: int
    answered_us: int = 0
    is_stored: bool = False
    parked_offset: int | None = None
    stored_ms: int | None = None  # by the broker's clock


class Received(NamedTuple):
    """A message as it was pulled, and when by our wall clock."""

    record: Record
    at_us: int


Progress = Callable[[str, int, int], object]
"""Hears what is going on: what, how many of it are done, of how many."""


class Probing:
    """A probe of a cluster: what was ``sent``, ``received`` by key, and ``failed``, by the reason."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan = plan
        self.cluster = Cluster(plan.name_servers, plan.account)
        self.sent: dict[str, Sent] = {}
        self.received: defaultdict[str, list[Received]] = defaultdict(list)
        self.failed: Counter[str] = Counter()
        self._progress = progress
        self._is_sent = False
        self._all_received = asyncio.Event()
        self._last_due_us = 0  # by our clock

    async def run(self, stop: asyncio.Event) -> None:
        """Do it, until everything has come, patience is over, or ``stop`` is set. Raises ProbeError."""
        stopping = asyncio.create_task(stop.wait())
        work = asyncio.create_task(self._run())
        try:
            await asyncio.wait((stopping, work), return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                work.result()
        finally:
            for task in (stopping, work):
                task.cancel()
            await asyncio.gather(stopping, work, return_exceptions=True)
            await self.cluster.close()

    async def _run(self) -> None:
        plan, cluster = self.plan, self.cluster
        await cluster.open(plan.topic)
        for level in plan.levels:
            if level > cluster.table.highest:
                raise ProbeError(f"there is no level {level}: the cluster has {cluster.table.text}")
        starts = []
        for broker in cluster.brokers:
            await cluster.open_group(broker, plan.topic, plan.group)
            starts += [
                (broker, queue_id, await end_of(broker, plan.topic, queue_id))
                for queue_id in range(broker.read_queues)
            ]
        receivers = [asyncio.create_task(self._receive(*start)) for start in starts]
        try:
            await self._send_all()
            await self._wait_for_rest()
        finally:
            for receiver in receivers:
                receiver.cancel()
            await asyncio.gather(*receivers, return_exceptions=True)

    # Send

    async def _send_all(self) -> None:
        queues = cycle(
            (broker, queue_id)
            for broker in self.cluster.brokers
            for queue_id in range(min(broker.write_queues, broker.read_queues))
        )
        levels = [0] * (_CLOCK_MESSAGES * len(self.cluster.brokers)) + [*self.plan.levels] * self.plan.each
        next_us = steady_us()
        for number, level in enumerate(levels):
            await asyncio.sleep(max(0, next_us - steady_us()) / US_PER_S)
            next_us = max(steady_us(), next_us + US_PER_S // self.plan.rate)
            await self._send(*next(queues), level)
            self._progress("sent", number + 1, len(levels))
            if self.failed.total() == number + 1 and number + 1 in (_HOPELESS, len(levels)):
                raise ProbeError(f"the cluster takes no message: {next(iter(self.failed))}")
        self._is_sent = True
        self._look()

    async def _send(self, broker: ProbedBroker, queue_id: int, level: int) -> None:
        now_us = wall_us()
        sent = Sent(new_unique_key(now_us), level, broker, now_us)
        self.sent[sent.key] = sent
        properties = {UNIQ_KEY: sent.key, WAIT: "true"} | ({DELAY: str(level)} if level else {})
        ext = send_ext(self.plan.topic, self.plan.group, queue_id, now_us, properties)
        try:
            answer = await broker.requests.call(RequestCode.SEND_MESSAGE, ext, bytes(self.plan.size))
            if answer.code not in _STORED:
                self.failed[answer.reason] += 1
                return
            sent.sent_us, sent.answered_us, sent.is_stored = answer.sent_us, answer.answered_us, True
            if level:
                delay_us = self.cluster.table.delay_us(level)
                self._last_due_us = max(self._last_due_us, answer.answered_us + delay_us)
                await self._look_at_parked(sent, answer.ext.get("msgId", ""))
        except EmulatorError as error:  # an answer that cannot be read, too
            if not sent.is_stored:
                self.failed[str(error)] += 1

    async def _look_at_parked(self, sent: Sent, message_id: str) -> None:
        """Ask the broker when it stored the delayed message, from which it counts the delay."""
        sent.parked_offset = commit_offset_of(message_id)
        if sent.parked_offset is None:
            return
        ext = {"offset": str(sent.parked_offset)}
        answer = await sent.broker.requests.call(RequestCode.VIEW_MESSAGE_BY_ID, ext)
        if answer.code == ResponseCode.SUCCESS:
            for record in decode_records(answer.body):
                if key_of(record) == sent.key:
                    sent.stored_ms = record.store_ms

    # Receive

    async def _receive(self, broker: ProbedBroker, queue_id: int, offset: int) -> None:
        plan = self.plan
        while True:
            try:
                answer = await broker.pulls.call(
                    RequestCode.PULL_MESSAGE,
                    pull_ext(plan.topic, plan.group, queue_id, offset, _SUSPEND_MS),
                    wait_s=_SUSPEND_MS * US_PER_MS / US_PER_S,
                )
                if answer.code == ResponseCode.SUCCESS:
                    for record in decode_records(answer.body):
                        self.received[key_of(record)].append(Received(record, answer.answered_us))
                    self._look()
                offset = int(answer.ext["nextBeginOffset"])
            except (EmulatorError, KeyError, ValueError):
                await asyncio.sleep(_AGAIN_S)  # it has gone away, or refuses for a time

    def _look(self) -> None:
        if not self._is_sent:
            return
        stored = [key for key, sent in self.sent.items() if sent.is_stored]
        come = sum(key in self.received for key in stored)
        self._progress("received", come, len(stored))
        if come == len(stored):
            self._all_received.set()

    async def _wait_for_rest(self) -> None:
        try:
            async with asyncio.timeout(
                max(0, self._last_due_us + self.plan.patience_us - wall_us()) / US_PER_S
            ):
                await self._all_received.wait()
        except TimeoutError:
            pass


def key_of(record: Record) -> str:
    """The unique key of a message."""
    return decode_properties(record.properties).get(UNIQ_KEY, "")
