"""The ledger of a probe, in the form of docs/ledger-format.md, and what it comes to.

A row's instants are by its broker's clock. Where the broker says when it stored the delayed message, due and
delivered times are both its own, in whole milliseconds, so lateness does not depend on the difference of the
clocks. Elsewhere the store time is reckoned from ours.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

from mocketmq.clock import US_PER_MS
from mocketmq.probe.clock_offset import ClockOffset, Sample
from mocketmq.probe.probing import Probing, Received, Sent

_PERCENTILES: Final = (50, 90, 99)


class LedgerRow(NamedTuple):
    """The columns that a probe knows; None is an empty value."""

    run: str
    message_id: str
    topic: str
    queue_id: int | None
    queue_offset: int | None
    scheme: str
    level: int
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
    """What a probe found; ``error_us`` is that of each lateness. ``offsets`` are by the broker's name."""

    def __init__(self, probing: Probing) -> None:
        self._probing = probing
        self.offsets: dict[str, ClockOffset] = {}
        for broker in probing.cluster.brokers:
            offset = ClockOffset.of(_samples(probing, broker.name))
            if offset is not None:
                self.offsets[broker.name] = offset
        self.rows: list[LedgerRow] = []
        self.error_us = 0
        for sent in probing.sent.values():
            if sent.level and sent.is_stored and sent.broker.name in self.offsets:
                self.rows += self._rows_of(sent, self.offsets[sent.broker.name])

    def _rows_of(self, sent: Sent, offset: ClockOffset) -> Iterator[LedgerRow]:
        plan, broker = self._probing.plan, sent.broker
        if sent.stored_ms is not None:
            stored_us, error_us = sent.stored_ms * US_PER_MS, US_PER_MS
        else:
            way_us = sent.answered_us - sent.sent_us
            stored_us = sent.sent_us + way_us // 2 + offset.ahead_us
            error_us = way_us - way_us // 2 + offset.error_us + US_PER_MS
        self.error_us = max(self.error_us, error_us)
        due_us = stored_us + self._probing.cluster.table.delay_us(sent.level)
        found: Sequence[Received | None] = self._probing.received.get(sent.key) or [None]
        for each in found:
            record = each and each.record
            delivered_us = record and record.store_ms * US_PER_MS
            if delivered_us is not None and due_us - error_us <= delivered_us < due_us:
                due_us = delivered_us  # as far as can be told
            yield LedgerRow(
                run=broker.name,
                message_id=sent.key,
                topic=plan.topic,
                queue_id=record and record.queue_id,
                queue_offset=record and record.queue_offset,
                scheme="levels",
                level=sent.level,
                size=plan.size,
                state="delivered" if record else "pending",
                parked_offset=sent.parked_offset,
                delivered_offset=record and record.commit_offset,
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
        """What it comes to, as JSON; times in microseconds."""
        probing = self._probing
        return {
            "topic": probing.plan.topic,
            "group": probing.plan.group,
            "lateness_error_us": self.error_us,
            "levels": [self._level(level) for level in probing.plan.levels],
            "brokers": [
                {"name": broker.name, "address": broker.address, "version": broker.version}
                | _clock(self.offsets.get(broker.name))
                for broker in probing.cluster.brokers
            ],
            "failed": dict(probing.failed),
            "notes": probing.cluster.notes,
        }

    def _level(self, level: int) -> Mapping[str, Any]:
        rows = [row for row in self.rows if row.level == level]
        late = sorted(row.delivered_us - row.due_us for row in rows if row.delivered_us is not None)
        return {
            "level": level,
            "delay": self._probing.cluster.table.describe(level),
            "sent": len({row.message_id for row in rows}),
            "received": len({row.message_id for row in rows if row.delivered_us is not None}),
            **{f"p{each}_us": _percentile(late, each) for each in _PERCENTILES},
            "max_us": late[-1] if late else None,
        }


def _samples(probing: Probing, name: str) -> Iterator[Sample]:
    for sent in probing.sent.values():
        if sent.broker.name != name or not sent.is_stored:
            continue
        if sent.level == 0 and sent.key in probing.received:
            store_ms = min(each.record.store_ms for each in probing.received[sent.key])
            yield Sample(sent.sent_us, sent.answered_us, store_ms)
        elif sent.stored_ms is not None:
            yield Sample(sent.sent_us, sent.answered_us, sent.stored_ms)


def _clock(offset: ClockOffset | None) -> dict[str, Any]:
    if offset is None:
        return {"clock_ahead_us": None, "clock_error_us": None, "clock_drifts": None}
    return {
        "clock_ahead_us": offset.ahead_us,
        "clock_error_us": offset.error_us,
        "clock_drifts": offset.drifts,
    }


def _within(instant_us: int, least_us: int | None, most_us: int | None, offset: ClockOffset) -> int:
    """The instant, moved by no more than the clocks' error to where it can have been."""
    slack_us = offset.error_us + US_PER_MS
    if least_us is not None and least_us - slack_us <= instant_us < least_us:
        return least_us
    if most_us is not None and most_us < instant_us <= most_us + slack_us:
        return most_us
    return instant_us


def _percentile(ordered: Sequence[int], percent: int) -> int | None:
    return ordered[ceil(len(ordered) * percent / 100) - 1] if ordered else None
