"""The judge of a crash test: compares the answers to clients with the state of the broker.

It only listens. Clients of a broker report each request before sending it, and each answer afterwards. An
unanswered request may or may not have taken effect. Instants are emulated milliseconds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mocketmq.message.names import DLQ_PREFIX

Answer = Mapping[str, Any]


class Copy(NamedTuple):
    """A message as a queue holds it: attempt 1 when it was sent, one more each time it was given back."""

    message_id: str
    attempt: int


class Record(NamedTuple):
    """A copy's record in a queue. Log offsets are unique."""

    log_offset: int
    copy: Copy
    store_ms: int


class Judge:
    """Collects ``faults``, each as a sentence. One judge serves all brokers that run on a store.

    ``may_repeat`` allows repeats of messages from delay levels; timed messages must never repeat.
    ``whole_seconds`` means that timed messages arrive at the end of their second.
    """

    def __init__(self, *, may_repeat: bool = False, whole_seconds: bool = False) -> None:
        self.faults: list[str] = []
        self.records: dict[tuple[str, int], list[Record]] = {}  # by topic and queue, with offsets from 0
        self.acked: set[int] = set()  # log offsets, as in all consumer operations
        self.given_back: set[int] = set()
        self.may_repeat = may_repeat
        self._whole_seconds = whole_seconds
        # Messages that may be stored, and their earliest due times
        self._not_before_ms: dict[Copy, int] = {}
        self._timed: set[Copy] = set()  # copies with an absolute due time
        self._promised: set[Copy] = set()
        self._cancelling: set[Copy] = set()
        self._cancelled: set[Copy] = set()
        self._settling: set[int] = set()
        self._latest_ms = 0
        self._certain_ms = 0  # the latest instant with a durable answer
        self.clock_ms = 0  # last clock reading; during a move, store times are ahead of it

    # Requests and answers

    def sending(self, messages: Iterable[Answer]) -> None:
        """Record that messages are about to be sent, with these fields of the request."""
        for message in messages:
            copy = Copy(message["message_id"], 1)
            delay_ms = message.get("delay_ms", 0)
            self._not_before_ms[copy] = self.clock_ms + delay_ms if delay_ms else 0
            if delay_ms or "start_deliver_ms" in message:
                self._timed.add(copy)

    def sent(self, answer: Answer) -> None:
        """Record an acknowledged send."""
        copy = Copy(answer["message_id"], 1)
        not_before_ms = answer["store_ms"] if answer["due_ms"] is None else answer["due_ms"]
        if not_before_ms < self._not_before_ms[copy]:
            self._fault(f"{copy} is due {self._not_before_ms[copy] - not_before_ms} ms before it should be")
        if self._whole_seconds and copy in self._timed and answer["due_ms"] is not None:
            not_before_ms = -(-not_before_ms // 1_000) * 1_000
        self._not_before_ms[copy] = not_before_ms
        self._promised.add(copy)
        if copy not in self._timed:  # a clock move that a kill interrupts is not recorded in files
            self._saw(answer["store_ms"])

    def cancelling(self, message_id: str) -> None:
        """Record that the message is about to be cancelled."""
        self._cancelling.add(Copy(message_id, 1))

    def cancelled(self, message_id: str) -> None:
        """Record that the broker has cancelled the message."""
        self._cancelled.add(Copy(message_id, 1))

    def not_cancelled(self, message_id: str) -> None:
        """Record the answer that the message is not pending, although no other client cancelled it."""
        self._cancelling.remove(Copy(message_id, 1))

    def forcing(self, message_id: str) -> None:
        """Record that the message is about to be delivered by hand."""
        copy = Copy(message_id, 1)
        self._not_before_ms[copy] = min(self._not_before_ms[copy], self._latest_ms)

    def received(self, messages: Iterable[Answer]) -> None:
        """Record that the group received these messages."""
        for message in messages:
            log_offset = message["log_offset"]
            if log_offset in self.acked:
                self._fault(f"{_copy(message)} was received again after it was acknowledged")
            if log_offset in self.given_back:
                self._fault(f"{_copy(message)} was received again after it was given back")
            self._judge_time(_copy(message), message["store_ms"])
            self._latest_ms = max(self._latest_ms, message["store_ms"])

    def cut(self) -> None:
        """Record a power cut, which may undo receives and the clock."""
        self._latest_ms = self._certain_ms

    def acking(self, messages: Iterable[Answer]) -> None:
        """Record that messages are about to be acknowledged."""
        self._settling.update(message["log_offset"] for message in messages)

    def acknowledged(self, messages: Iterable[Answer]) -> None:
        """Record that the broker has accepted the acknowledgement."""
        self.acked.update(message["log_offset"] for message in messages)

    def giving_back(self, messages: Iterable[Answer], delay_ms: int) -> None:
        """Record that messages are about to be returned with this delay."""
        for message in messages:
            self._settling.add(message["log_offset"])
            # An earlier unanswered attempt may have succeeded.
            not_before_ms = self._latest_ms + delay_ms
            copy = _next(message)
            self._not_before_ms[copy] = min(self._not_before_ms.get(copy, not_before_ms), not_before_ms)

    def gave_back(self, messages: Iterable[Answer]) -> None:
        """Record that the broker has accepted the returned messages."""
        for message in messages:
            self.given_back.add(message["log_offset"])
            self._promised.add(_next(message))

    # State of the broker

    def saw_clock(self, now_ms: int) -> None:
        """Record a reading of the broker's clock."""
        self.clock_ms = max(self.clock_ms, now_ms)
        self._saw(now_ms)

    def clock_is(self, now_ms: int) -> None:
        """Record that the clock is at this instant, which no earlier observation exceeds."""
        if now_ms < self._latest_ms:
            self._fault(f"the clock went back by {self._latest_ms - now_ms} ms")
        self.saw_clock(now_ms)

    def browsed(self, topic: str, queue_id: int, messages: Iterable[Answer]) -> None:
        """Record that the queue holds these records after the records seen before."""
        records = self.records.setdefault((topic, queue_id), [])
        for message in messages:
            record = Record(message["log_offset"], _copy(message), message["store_ms"])
            place = f"{topic}/{queue_id}"
            if message["queue_offset"] != len(records):
                self._fault(f"{place} has {message['queue_offset']} where {len(records)} is expected")
            if records and records[-1].log_offset >= record.log_offset:
                self._fault(f"{place}: log offsets fall at {len(records)}")
            if records and records[-1].store_ms > record.store_ms:
                self._fault(f"{place}: store times fall at {len(records)}")
            if not topic.startswith(DLQ_PREFIX):  # dead letters are copies that their group's judge knows
                self._judge_time(record.copy, record.store_ms)
            records.append(record)

    def verdict(self) -> list[str]:
        """Return all faults, once everything is delivered, browsed, received and settled."""
        records = [
            record
            for (topic, _), queue in self.records.items()
            if not topic.startswith(DLQ_PREFIX)
            for record in queue
        ]
        stored = Counter(record.copy for record in records)
        lost = [f"{copy} was lost" for copy in sorted(self._promised - stored.keys() - self._cancelling)]
        revived = [f"{copy} came after it was cancelled" for copy in sorted(self._cancelled & stored.keys())]
        repeated = [
            f"{copy} was stored {times} times"
            for copy, times in stored.items()
            if times > 1 and not (self.may_repeat and copy not in self._timed)
        ]
        offsets = Counter(record.log_offset for record in records)
        doubled = [
            f"log offset {offset} was given out twice" for offset, times in offsets.items() if times > 1
        ]
        untouched = [
            f"{record.copy} never reached the group"
            for record in records
            if record.log_offset not in self._settling
        ]
        return self.faults + lost + revived + repeated + doubled + untouched

    def _saw(self, instant_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, instant_ms)
        self._certain_ms = max(self._certain_ms, instant_ms)

    def _judge_time(self, copy: Copy, store_ms: int) -> None:
        not_before_ms = self._not_before_ms.get(copy)
        if not_before_ms is None:
            self._fault(f"{copy} was never sent")
        elif store_ms < not_before_ms:
            self._fault(f"{copy} came {not_before_ms - store_ms} ms early")

    def _fault(self, sentence: str) -> None:
        self.faults.append(sentence)


def _copy(message: Answer) -> Copy:
    return Copy(message["message_id"], message["reconsume_times"] + 1)


def _next(message: Answer) -> Copy:
    return Copy(message["message_id"], message["reconsume_times"] + 2)
