"""Compares the messages that the demo's consumers received with the messages that were due."""

from dataclasses import dataclass
from typing import Final

from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings

LEVELS: Final = LevelTable.parse(Settings().levels)
RETRY_LEVEL: Final = 3
"""Delay level of a message that is given back for the first time."""


@dataclass(slots=True)
class Tally:
    """Counts of one level's messages. ``latest_ms`` is the maximum lateness."""

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
        self.unknown = 0  # received, but not sent by the demo
        # The tally and the due time, by message id and attempt. A received message has None as its due time.
        self._expected: dict[tuple[str, int], tuple[Tally, int | None]] = {}

    @property
    def total(self) -> Tally:
        """The sum of all tallies."""
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
        """Count a received message. It became visible when its record was stored."""
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
