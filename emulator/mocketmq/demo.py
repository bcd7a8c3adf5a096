"""The demo, which plays a day of delayed messages through a real broker, and checks what consumers receive.

The demo starts a broker in another process and moves the broker's clock through the day. The demo sends a
shop's messages over all delay levels. Consumer groups receive them and sometimes give a message back. The
demo itself computes the expected due times, so that the check does not rely on the broker.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from mocketmq.client.answer import JsonObject
from mocketmq.client.asynchronous import Client
from mocketmq.client.messaging import outgoing
from mocketmq.clock import US_PER_MS
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings

LEVELS: Final = LevelTable.parse(Settings().levels)
RETRY_LEVEL: Final = 3
"""Delay level of a message that is given back for the first time."""
_HOUR_MS = 3_600_000
_MOVES = 300  # number of clock moves through the day
_SEND = 500  # number of messages in one request
_RECEIVE = 256
_ONE_IN = 50  # one in this many received messages is given back


@dataclass(slots=True)
class Tally:
    """The counts for one level's messages. ``latest_ms`` is the maximum lateness."""

    name: str
    delay: str
    sent: int = 0
    delivered: int = 0
    early: int = 0
    repeated: int = 0
    latest_ms: int = 0

    @property
    def lost(self) -> int:
        """The number of messages not received."""
        return self.sent - self.delivered


class Tallies:
    """One tally per level, and one for messages that were given back."""

    def __init__(self) -> None:
        self.levels = [Tally(str(level), LEVELS.describe(level)) for level in range(1, LEVELS.highest + 1)]
        self.retries = Tally("retry", LEVELS.describe(RETRY_LEVEL))
        self.unknown = 0  # received messages that the demo did not send
        # The tally and the due time by message id and attempt. The due time of a received message is None.
        self._expected: dict[tuple[str, int], tuple[Tally, int | None]] = {}

    @property
    def total(self) -> Tally:
        total = Tally("all", "")
        for each in (*self.levels, self.retries):
            total.sent += each.sent
            total.delivered += each.delivered
            total.early += each.early
            total.repeated += each.repeated
            total.latest_ms = max(total.latest_ms, each.latest_ms)
        return total

    @property
    def is_clean(self) -> bool:
        """Whether every message was received exactly once, and none early."""
        total = self.total
        return not (total.early or total.lost or total.repeated or self.unknown)

    def sent(self, level: int, message_id: str, store_ms: int) -> None:
        """Expect a message that is stored at this instant."""
        self._expect(self.levels[level - 1], message_id, 1, store_ms + LEVELS.delay_us(level) // US_PER_MS)

    def given_back(self, message: JsonObject, now_ms: int) -> None:
        """Expect a retry of a message that is given back at this instant."""
        due_ms = now_ms + LEVELS.delay_us(RETRY_LEVEL) // US_PER_MS
        self._expect(self.retries, message["message_id"], message["attempt"] + 1, due_ms)

    def _expect(self, tally: Tally, message_id: str, attempt: int, due_ms: int) -> None:
        tally.sent += 1
        self._expected[message_id, attempt] = tally, due_ms

    def received(self, message: JsonObject) -> None:
        """Count a received message. A message became visible when its record was stored."""
        key = message["message_id"], message["attempt"]
        if key not in self._expected:
            self.unknown += 1
            return
        tally, due_ms = self._expected[key]
        if due_ms is None:
            tally.repeated += 1
            return
        self._expected[key] = tally, None
        late_ms = message["store_ms"] - due_ms
        tally.delivered += 1
        tally.early += late_ms < 0
        tally.latest_ms = max(tally.latest_ms, late_ms)


class _Kind(NamedTuple):
    """A kind of message, with its topic, tag and levels, and its ``share`` of all messages in percent."""

    topic: str
    tag: str
    levels: tuple[int, ...]
    share: int


_KINDS = (
    _Kind("orders", "cancel-unpaid", (14, 15, 16, 17, 18), 30),
    _Kind("orders", "release-stock", (10, 11, 12, 13, 14), 15),
    _Kind("payments", "retry-capture", (3, 4, 5, 6, 7, 8, 9), 30),
    _Kind("notices", "retry-push", (1, 2, 3, 4), 15),
    _Kind("notices", "remind-of-cart", (16, 17, 18), 10),
)
_GROUPS = {"orders": "order-service", "payments": "payment-service", "notices": "notice-service"}
_REGIONS = ("eu-west", "eu-north", "us-east", "ap-south")
_BUSY = (3, 2, 1, 1, 1, 2, 4, 8, 12, 14, 15, 17, 18, 15, 14, 14, 15, 17, 20, 23, 22, 18, 11, 6)
"""Relative traffic in each hour."""


class DayProgress(NamedTuple):
    """The progress through the day. A message that was given back counts when it is received again."""

    now_ms: int
    sent: int
    received: int


class Shop:
    """Sends and receives a day's messages, checks them, and reports its progress."""

    def __init__(self, broker: Client, messages: int, report: Callable[[DayProgress], None]) -> None:
        self.expectations = Tallies()
        self._broker = broker
        self._messages = messages
        self._report = report
        self._random = random.Random(messages)  # noqa: S311 - not for secrets
        self._now_ms = 0
        self._sent = 0
        self._received = 0

    async def play(self) -> None:
        """Play the day, and the hours until the last message is due."""
        start_ms = (await self._broker.clock())["now_ms"]
        moves = sorted(self._random.randrange(24 * _HOUR_MS) for _ in range(_MOVES))
        busy = [_BUSY[after_ms // _HOUR_MS] for after_ms in moves]
        visits = Counter(self._random.choices(range(_MOVES), busy, k=self._messages))
        for number, after_ms in enumerate(moves):
            await self._move_to(start_ms + after_ms)
            await asyncio.gather(self._send(visits[number]), self._receive())
        # Move by the longest delay, and again for messages that are given back after the first move.
        for _ in range(2):
            await self._move_to(self._now_ms + max(LEVELS.delays_us) // US_PER_MS)
            await self._receive()

    async def _move_to(self, instant_ms: int) -> None:
        self._now_ms = (await self._broker.move_to(instant_ms))["now_ms"]
        self._tell()

    async def _send(self, count: int) -> None:
        topics = defaultdict(list)
        for kind in self._random.choices(_KINDS, [kind.share for kind in _KINDS], k=count):
            topics[kind.topic].append(self._message(kind))
        await asyncio.gather(
            *(
                self._send_batch(topic, messages[first : first + _SEND])
                for topic, messages in topics.items()
                for first in range(0, len(messages), _SEND)
            )
        )

    async def _send_batch(self, topic: str, messages: Sequence[JsonObject]) -> None:
        answers = await self._broker.send_batch(topic, messages)
        for message, sent in zip(messages, answers, strict=True):
            self.expectations.sent(message["delay_level"], sent["message_id"], sent["store_ms"])
        self._sent += len(messages)
        self._tell()

    def _message(self, kind: _Kind) -> JsonObject:
        order = f"O-{self._random.randrange(10**9):09}"
        content = {
            "event": kind.tag,
            "order": order,
            "customer": f"C-{self._random.randrange(10**6):06}",
            "amount_cents": self._random.randrange(199, 99_900),
            "currency": "EUR",
        }
        return outgoing(
            msgspec.json.encode(content).decode(),
            tag=kind.tag,
            keys=[order],
            properties={"region": self._random.choice(_REGIONS)},
            delay_level=self._random.choice(kind.levels),
        )

    async def _receive(self) -> None:
        """Receive for every group until its topic is empty. The clock stands still meanwhile."""
        await asyncio.gather(*(self._receive_topic(topic, group) for topic, group in _GROUPS.items()))

    async def _receive_topic(self, topic: str, group: str) -> None:
        while messages := await self._broker.receive(topic, group=group, max_messages=_RECEIVE):
            done: list[JsonObject] = []
            back: list[JsonObject] = []
            for message in messages:
                self.expectations.received(message)
                is_failure = message["attempt"] == 1 and self._random.randrange(_ONE_IN) == 0
                (back if is_failure else done).append(message)
            if done:
                await self._broker.acknowledge(group, done)
            if back:
                await self._broker.give_back(group, back)
                for message in back:
                    self.expectations.given_back(message, self._now_ms)
            self._received += len(done)
            self._tell()

    def _tell(self) -> None:
        self._report(DayProgress(self._now_ms, self._sent, self._received))
