"""The judge of a group that consumes in order, which listens to all its consumers.

A queue gives a message only with, or after the settlement of, all messages before it. While one of its
messages is in flight, it gives nothing. An unanswered request may or may not have taken effect.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A message's queue and offset."""

    queue: int
    offset: int


class OrderJudge:
    """Collects ``faults``, each as a sentence. Queues have numbers. Instants are emulated milliseconds."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._settling: dict[int, Counter[int]] = defaultdict(Counter)  # number of requests, by offset
        self._settled: dict[int, set[int]] = defaultdict(set)
        self._hidden_until_ms: dict[int, dict[int, int]] = defaultdict(dict)  # of messages in flight
        self._dying: set[str] = set()
        self._dead: set[str] = set()

    def received(self, queue: int, offsets: Sequence[int], *, by_ms: int, hidden_until_ms: int) -> None:
        """Record that a consumer received these messages of a queue, ``by_ms`` at the latest.

        They are in flight until ``hidden_until_ms`` at least.
        """
        hidden = self._hidden_until_ms[queue]
        for offset, until_ms in hidden.items():
            if until_ms > by_ms:
                self._fault(f"queue {queue} gave {offsets} while {offset} was in flight")
        passed = self._settling[queue].keys() | set(offsets)
        for before, offset in zip([-1, *offsets], offsets, strict=False):
            if before >= offset:
                self._fault(f"queue {queue} gave {offset} after {before}")
            if overtaken := sorted(set(range(offset)) - passed):
                self._fault(f"queue {queue} gave {offset} before {overtaken[0]}")
            if offset in self._settled[queue]:
                self._fault(f"queue {queue} gave {offset} again after it was settled")
            hidden[offset] = hidden_until_ms

    def retrying(self, place: Place, hidden_until_ms: int) -> None:
        """Record that a message is about to be made visible at this instant, or later."""
        hidden = self._hidden_until_ms[place.queue]
        if place.offset in hidden:
            hidden[place.offset] = min(hidden[place.offset], hidden_until_ms)

    def settling(self, places: Iterable[Place]) -> None:
        """Record that messages are about to be settled."""
        for queue, offset in places:
            self._settling[queue][offset] += 1
            self._hidden_until_ms[queue].pop(offset, None)

    def settled(self, place: Place) -> None:
        """Record that the broker has settled a message."""
        self._settled[place.queue].add(place.offset)

    def refused(self, place: Place) -> None:
        """Record that the broker has not settled a message by this request."""
        self._settling[place.queue] -= Counter([place.offset])

    def burying(self, message_id: str) -> None:
        """Record that a message is about to become a dead letter."""
        self._dying.add(message_id)

    def buried(self, message_id: str) -> None:
        """Record that the broker has made a message a dead letter."""
        self._dead.add(message_id)

    def verdict(self, ends: Mapping[int, int], dead: Sequence[str]) -> list[str]:
        """Return all faults, once everything up to these ends of queues is settled.

        ``dead`` has the ids of all dead letters.
        """
        unsettled = [
            f"queue {queue} never gave {offset}"
            for queue, end in ends.items()
            for offset in sorted(set(range(end)) - self._settling[queue].keys())
        ]
        lost = [f"dead letter {each} was lost" for each in sorted(self._dead - {*dead})]
        unknown = [f"dead letter {each} was consumed" for each in sorted({*dead} - self._dying)]
        repeated = [f"dead letter {each} was stored twice" for each, n in Counter(dead).items() if n > 1]
        return self.faults + unsettled + lost + unknown + repeated

    def _fault(self, sentence: str) -> None:
        self.faults.append(sentence)
