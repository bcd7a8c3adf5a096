"""The ledger of a probe in the format of docs/ledger-format.md, and its summary.

A row's instants are by its broker's clock. If the broker reports when it stored the delayed message, both the
due time and the delivery time come from the broker, in whole milliseconds, so lateness does not depend on the
clock offset. Otherwise the store time is computed from the local clock. Absolute due times are by the
broker's clock.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.duration import format_duration
from mocketmq.probe.clock_offset import ClockOffset, Sample
from mocketmq.probe.cluster import Delay, ReceivedProbe, SentProbe
from mocketmq.probe.probing import Probing

_PERCENTILES: Final = (50, 90, 99)
_MOVED_US: Final = 10 * US_PER_S
"""Lead of a clock above which it is not an ordinary clock skew within a cluster."""


class LedgerRow(NamedTuple):
    """The columns that a probe can fill. None becomes an empty value."""

    run: str
    message_id: str
    topic: str
    queue_id: int | None
    queue_offset: int | None
    scheme: str
    level: int | None
    size: int
    state: str
    parked_offset: int | None
    delivered_offset: int | None
    born_us: int
    stored_us: int
    due_us: int
    delivered_us: int | None
    pulled_us: int | None
    pulled_by: str | None
    version: str
    host: str
    profile: str
    clock: str


class ProbeLedger:
    """A probe's results. ``error_us`` applies to every lateness; ``offsets`` are by broker name."""

    def __init__(self, probing: Probing) -> None:
        self._probing = probing
        self.offsets: dict[str, ClockOffset] = {}
        for broker in probing.cluster.brokers:
            offset = ClockOffset.of(_samples(probing, broker.name))
            if offset is not None:
                self.offsets[broker.name] = offset
        self.notes = list(probing.cluster.notes)
        self._moved = {name for name, offset in self.offsets.items() if self._moves_due_times(name, offset)}
        self.notes += [
            f"broker {name} shifts due times by the lead of its clock, as mocketmq does"
            for name in sorted(self._moved)
        ]
        unknown = probing.repeated & probing.sent.keys() - probing.received.keys()
        if unknown:
            self.notes.append(
                f"{len(unknown)} messages are left out: they were redelivered, and the cluster does not"
                " report their first delivery"
            )
        self.rows: list[LedgerRow] = []
        self._by_delay: defaultdict[Delay, list[LedgerRow]] = defaultdict(list)
        self.error_us = 0
        self._due_before: Counter[str] = Counter()  # messages due before they were stored, by broker
        for sent in probing.sent.values():
            if sent.key in unknown:
                continue
            if sent.delay and sent.is_stored and sent.broker.name in self.offsets:
                rows = [*self._rows_of(sent, sent.delay, self.offsets[sent.broker.name])]
                self._by_delay[sent.delay] += rows
                self.rows += rows
        self.notes += [
            f"{count} messages were due before broker {name} had stored them, and are left out"
            for name, count in self._due_before.items()
        ]
        early_us = [row.due_us - row.delivered_us for row in self.rows if row.delivered_us is not None]
        if early_us and max(early_us) > 0:
            count = sum(each > 0 for each in early_us)
            self.notes.append(
                f"{count} messages arrived early, by up to {format_duration(max(early_us))}: some brokers"
                " round"
                " due times down, and some ignore due times and deliver at once"
            )

    def _moves_due_times(self, name: str, offset: ClockOffset) -> bool:
        """Whether the broker shifts due times by the lead of its clock, as mocketmq does."""
        late_us = [
            received.delivered_ms * US_PER_MS - sent.due_ms * US_PER_MS
            for sent in self._probing.sent.values()
            if sent.broker.name == name and sent.delay and sent.delay.level is None
            for received in self._probing.received.get(sent.key, ())
        ]
        ahead_us = offset.ahead_us - offset.error_us - US_PER_MS
        return bool(late_us) and ahead_us > _MOVED_US and min(late_us) >= ahead_us

    def _rows_of(self, sent: SentProbe, delay: Delay, offset: ClockOffset) -> Iterator[LedgerRow]:
        plan, broker = self._probing.plan, sent.broker
        found: Sequence[ReceivedProbe | None] = self._probing.received.get(sent.key) or [None]
        store_times = [sent.stored_ms, *(each.stored_ms for each in found if each)]
        stored_ms = next((each for each in store_times if each is not None), None)
        if stored_ms is not None:
            stored_us, stored_error_us = stored_ms * US_PER_MS, US_PER_MS
        else:
            way_us = sent.answered_us - sent.sent_us
            stored_us = sent.sent_us + way_us // 2 + offset.ahead_us
            stored_error_us = way_us - way_us // 2 + offset.error_us + US_PER_MS
        if delay.level is not None:
            due_us, error_us = stored_us + delay.us, stored_error_us
        else:
            due_us, error_us = sent.due_ms * US_PER_MS, US_PER_MS
            if broker.name in self._moved:
                due_us, error_us = due_us + offset.ahead_us, error_us + offset.error_us
            if due_us <= stored_us:
                self._due_before[broker.name] += 1
                return
        for each in found:
            delivered_us = each and each.delivered_ms * US_PER_MS
            if delivered_us is not None and due_us - error_us <= delivered_us < due_us:
                due_us = delivered_us  # the delivery is not early, because the difference is within the error
            if each and delivered_us is not None:
                self.error_us = max(self.error_us, error_us, _unseen_us(each, due_us, delivered_us, offset))
            yield LedgerRow(
                run=broker.name,
                message_id=sent.message_id or sent.key,
                topic=plan.topic,
                queue_id=each and each.queue_id,
                queue_offset=each and each.queue_offset,
                scheme="absolute" if delay.level is None else "levels",
                level=delay.level,
                size=plan.size,
                state="delivered" if each else "pending",
                parked_offset=sent.parked_offset,
                delivered_offset=each and each.log_offset,
                born_us=_within(sent.sent_us + offset.ahead_us, None, stored_us, offset),
                stored_us=stored_us,
                due_us=due_us,
                delivered_us=delivered_us,
                pulled_us=each and _within(each.at_us + offset.ahead_us, delivered_us, None, offset),
                pulled_by=each and plan.group,
                version=broker.version,
                host=broker.address,
                profile="rocketmq",
                clock="real",
            )

    def write(self, path: Path) -> None:
        """Write all rows as CSV. Raises OSError."""
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(LedgerRow._fields)
            rows.writerows(self.rows)

    def summary(self) -> dict[str, Any]:
        """The summary as JSON, with times in microseconds."""
        probing = self._probing
        return {
            "topic": probing.plan.topic,
            "group": probing.plan.group,
            "lateness_error_us": self.error_us,
            "delays": [self._delay(delay) for delay in probing.delays],
            "brokers": [
                {"name": broker.name, "address": broker.address, "version": broker.version}
                | _clock(self.offsets.get(broker.name))
                for broker in probing.cluster.brokers
            ],
            "failed": dict(probing.failed),
            "notes": self.notes,
        }

    def _delay(self, delay: Delay) -> Mapping[str, Any]:
        rows = self._by_delay[delay]
        late = sorted(row.delivered_us - row.due_us for row in rows if row.delivered_us is not None)
        return {
            "level": delay.level,
            "delay": format_duration(delay.us),
            "sent": len({row.message_id for row in rows}),
            "received": len({row.message_id for row in rows if row.delivered_us is not None}),
            **{f"p{each}_us": _percentile(late, each) for each in _PERCENTILES},
            "max_us": late[-1] if late else None,
        }


def _samples(probing: Probing, name: str) -> Iterator[Sample]:
    for sent in probing.sent.values():
        if sent.broker.name != name or not sent.is_stored:
            continue
        stored_ms = sent.stored_ms
        if stored_ms is None:
            arrivals = probing.received.get(sent.key, ())
            stored_ms = min((each.stored_ms for each in arrivals if each.stored_ms is not None), default=None)
            if stored_ms is None and sent.delay is None:
                stored_ms = min((each.delivered_ms for each in arrivals), default=None)
        if stored_ms is not None:
            yield Sample(sent.sent_us, sent.answered_us, stored_ms)


def _unseen_us(received: ReceivedProbe, due_us: int, delivered_us: int, offset: ClockOffset) -> int:
    """Return the maximum time for which the message may have been visible before a poll could receive it."""
    if received.waited_from_us is None:
        return 0
    waited_us = received.waited_from_us + offset.ahead_us + 2 * offset.error_us
    return 0 if waited_us <= due_us else max(0, delivered_us - due_us)


def _clock(offset: ClockOffset | None) -> dict[str, Any]:
    if offset is None:
        return {"clock_ahead_us": None, "clock_error_us": None, "clock_drifts": None}
    return {
        "clock_ahead_us": offset.ahead_us,
        "clock_error_us": offset.error_us,
        "clock_drifts": offset.drifts,
    }


def _within(instant_us: int, least_us: int | None, most_us: int | None, offset: ClockOffset) -> int:
    """The instant, moved by at most the clock error to the nearest possible instant."""
    slack_us = offset.error_us + US_PER_MS
    if least_us is not None and least_us - slack_us <= instant_us < least_us:
        return least_us
    if most_us is not None and most_us < instant_us <= most_us + slack_us:
        return most_us
    return instant_us


def _percentile(ordered: Sequence[int], percent: int) -> int | None:
    return ordered[ceil(len(ordered) * percent / 100) - 1] if ordered else None
