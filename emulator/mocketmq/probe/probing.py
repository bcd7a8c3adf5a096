"""Runs a probe, which sends delayed messages at a low rate, receives them, and records the times."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import cycle
from typing import Final, NamedTuple

from mocketmq.calling.call import ClusterError
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError
from mocketmq.message.message_id import new_unique_key
from mocketmq.probe.cluster import Delay, Poll, ProbedBroker, ProbedCluster, ReceivedProbe, SentProbe

MAX_RATE: Final = 200
_AGAIN_S: Final = 1.0
_HOPELESS: Final = 10
"""Number of failed sends of one delay, without a success, after which the probe ends."""
_CLOCK_MESSAGES: Final = 5
"""Number of messages without delay to each broker, which always bound the clock offset."""
_PAST_US: Final = 86_400 * US_PER_S
"""How far the due time of messages without delay is in the past; some topics require a due time."""


class Plan(NamedTuple):
    """The messages to send: ``each`` per level and delay, ``rate`` per second, of ``size`` bytes each."""

    topic: str
    group: str
    levels: tuple[int, ...]
    delays_us: tuple[int, ...]  # delays of messages with an absolute due time
    each: int
    rate: int
    size: int
    patience_us: int  # time to wait for overdue messages


Progress = Callable[[str, int, int], object]
"""Called with the current activity, the number of completed steps, and the total."""


class Probing:
    """A probe of a cluster, with messages ``sent`` and ``received`` by key, and ``failed`` counts by reason.

    ``repeated`` has the keys of messages of which only a redelivery came, so that the time of the first
    delivery is unknown.
    """

    def __init__(self, plan: Plan, cluster: ProbedCluster, progress: Progress) -> None:
        self.plan = plan
        self.cluster = cluster
        self.delays: list[Delay] = []
        self.sent: dict[str, SentProbe] = {}
        self.received: defaultdict[str, list[ReceivedProbe]] = defaultdict(list)
        self.repeated: set[str] = set()
        self.failed: Counter[str] = Counter()
        self._progress = progress
        self._is_sent = False
        self._all_received = asyncio.Event()
        self._last_due_us = 0  # latest due time so far, by the local clock

    async def run(self, stop: asyncio.Event) -> None:
        """Send and receive until all messages have come, time is up, or ``stop`` is set.

        Raises ClusterError.
        """
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
        await cluster.open(plan.topic, plan.group)
        for level in plan.levels:
            if level > cluster.table.highest:
                raise ClusterError(f"there is no level {level}: the cluster has {cluster.table.text}")
            self.delays.append(Delay(cluster.table.delay_us(level), level))
        self.delays += map(Delay, plan.delays_us)
        receivers = [asyncio.create_task(self._receive(poll)) for poll in cluster.polls()]
        try:
            await self._send_all()
            await self._wait_for_rest()
        finally:
            for receiver in receivers:
                receiver.cancel()
            await asyncio.gather(*receivers, return_exceptions=True)

    # Send

    async def _send_all(self) -> None:
        brokers = cycle(self.cluster.brokers)
        clock_messages = _CLOCK_MESSAGES * len(self.cluster.brokers)
        delays: list[Delay | None] = [None] * clock_messages + self.delays * self.plan.each
        hopeless = {each: min(_HOPELESS, delays.count(each)) for each in set(delays)}
        next_us = steady_us()
        for number, delay in enumerate(delays):
            await asyncio.sleep(max(0, next_us - steady_us()) / US_PER_S)
            next_us = max(steady_us(), next_us + US_PER_S // self.plan.rate)
            reason = await self._send(next(brokers), delay)
            self._progress("sent", number + 1, len(delays))
            if reason is None:
                hopeless.pop(delay, None)
            elif delay in hopeless:
                hopeless[delay] -= 1
                if not hopeless[delay]:
                    what = "message" if delay is None else f"message delayed by {delay}"
                    raise ClusterError(f"the cluster refused a {what}: {reason}")
        self._is_sent = True
        self._look()

    async def _send(self, broker: ProbedBroker, delay: Delay | None) -> str | None:
        """Send a message. Return the reason if the send failed, otherwise None."""
        now_us = wall_us()
        ahead_us = delay.us if delay else -_PAST_US
        sent = SentProbe(new_unique_key(now_us), broker, delay, (now_us + ahead_us) // US_PER_MS, now_us)
        self.sent[sent.key] = sent
        try:
            await self.cluster.send(sent, self.plan.size)
        except EmulatorError as error:  # includes unreadable responses
            if not sent.is_stored:
                self.failed[str(error)] += 1
                return str(error)
        self._last_due_us = max(self._last_due_us, sent.answered_us + ahead_us)
        return None

    # Receive

    async def _receive(self, poll: Poll) -> None:
        # No poll may begin after the last message. A proxy of RocketMQ 5 takes time to notice that a poll is
        # abandoned, and may give it a message of the next probe, which would then receive this message late.
        while not self._all_received.is_set():
            try:
                received = await poll()
            except (EmulatorError, KeyError, ValueError):
                await asyncio.sleep(_AGAIN_S)  # the cluster may be down, or refuse requests for a while
            else:
                for each in received:
                    if each.tells_first_delivery:
                        self.received[each.key].append(each)
                    else:
                        self.repeated.add(each.key)
                self._look()

    def _look(self) -> None:
        if not self._is_sent:
            return
        stored = [key for key, sent in self.sent.items() if sent.is_stored]
        come = sum(key in self.received or key in self.repeated for key in stored)
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
