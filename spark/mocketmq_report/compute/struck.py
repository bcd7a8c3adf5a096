"""Finds which injected faults and outages delayed which messages, and for how long.

A message waits until it is pulled, and then until it is acknowledged. A late answer delays a message for as
long as the answer is late. The ends of other faults are unknown. If such a fault hit a receive or an
acknowledgement during a stage, it counts as delaying the message from then on, provided that this was at
least half of the stage.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mocketmq.clock import LATEST_US, US_PER_S
from mocketmq.message.names import RETRY_PREFIX
from mocketmq_report.compute.spans import Spans
from mocketmq_report.document import StruckRequests
from mocketmq_report.ledger.columns import EVERY_REQUEST
from mocketmq_report.ledger.rows import Bools, Ints, Rows

Operation = Literal["receive", "ack"]

_UNANSWERED: Final = ("late", "never", "close")
"""Faults after which a consumer may not get the messages of its receive in time."""


class Strikes(NamedTuple):
    """The requests of one kind that a fault hit, in order. An unknown topic or group matches every row."""

    store: str
    operation: str
    do: str
    fault: str
    topic: str | None
    group: str | None
    at_us: Ints
    to_us: Ints
    late: Spans | None  # spans in which answers were late

    def are_about(self, rows: Rows, stores: Mapping[str, str], operation: Operation) -> Bools:
        """Return for each row whether a request of this kind could have concerned it."""
        found = rows.is_any("run", [run for run, store in stores.items() if store == self.store])
        if self.topic is not None:
            retries = () if self.group is None else (RETRY_PREFIX + self.group,)
            found &= rows.is_any("topic", [self.topic, *retries])
        if operation == "ack" and self.group is not None:
            found &= rows.is_any("pulled_by", [self.group, None])
        return found

    def held_us(self, operation: Operation, begin_us: Ints, end_us: Ints) -> Ints:
        """Return how long the hits delayed each stage that ends with this operation."""
        is_away = self.operation == EVERY_REQUEST
        is_taken = operation == "ack" and self.operation == "receive" and self.do in _UNANSWERED
        most = np.zeros(len(begin_us), np.int64)
        if not (is_away or is_taken or self.operation == operation):
            return most
        if self.late is not None and not is_taken:
            return self.late.covered_us(begin_us, end_us)
        after = np.searchsorted(self.at_us, begin_us)  # the first request hit since the stage began
        for number in (after,) if is_taken else (after - 1, after):
            at = np.clip(number, 0, len(self.at_us) - 1)
            at_us, to_us = self.at_us[at], self.to_us[at]
            has_end = self.late is not None or (is_away and operation == "ack")
            held = (np.minimum(end_us, to_us) if has_end else end_us) - np.maximum(begin_us, at_us)
            is_held = (at == number) & (at_us <= end_us) & (to_us >= begin_us)
            if is_taken:  # the fault hit the request that received the message
                is_held &= at_us - begin_us <= US_PER_S
            if not has_end:
                is_held &= 2 * held >= end_us - begin_us
            most = np.maximum(most, np.where(is_held, held, 0))
        return most


def strikes(struck: pa.Table) -> tuple[Strikes, ...]:
    """Group rows of ``ledger.columns.STRUCK`` by fault and kind of request."""
    found: dict[tuple[str, str, str, str, str | None, str | None, bool], list[tuple[int, int]]]
    found = defaultdict(list)
    for row in struck.to_pylist():
        at_us, to_us = row["at_us"], row["to_us"]
        is_away = row["operation"] == EVERY_REQUEST
        is_late = to_us is not None and not is_away
        last_us = LATEST_US if is_away else at_us
        kind = row["store"], row["operation"], row["do"], row["fault"], row["topic"], row["group"], is_late
        found[kind].append((at_us, last_us if to_us is None else to_us))
    made = []
    for (store, operation, do, fault, topic, group, is_late), times in found.items():
        times.sort()
        at, to = np.array(times, np.int64).T
        late = Spans.of(times) if is_late else None
        made.append(Strikes(store, operation, do, fault, topic, group, at, to, late))
    return tuple(made)


class HeldUp(NamedTuple):
    """The fault that delayed each row the longest, and for how long; None and 0 without a fault."""

    fault: np.ndarray[Any, Any]
    us: Ints


def held_up(
    all_strikes: Iterable[Strikes],
    rows: Rows,
    stores: Mapping[str, str],
    operation: Operation,
    begin_us: Ints,
    end_us: Ints,
) -> HeldUp:
    """Find the fault that delayed the stage that ends with this operation the longest.

    ``stores`` names the store of each run.
    """
    fault = np.full(len(rows), None, object)
    most_us = np.zeros(len(rows), np.int64)
    for each in all_strikes:
        held_us = each.held_us(operation, begin_us, end_us)
        if not held_us.any():
            continue
        is_longer = (held_us > most_us) & each.are_about(rows, stores, operation)
        fault[is_longer] = each.fault
        most_us = np.where(is_longer, held_us, most_us)
    return HeldUp(fault, most_us)


def counted(struck: pa.Table, as_of_us: Mapping[str, int]) -> dict[str, list[StruckRequests]]:
    """Count the requests with each fault, most frequent first. Outages end at the store's ``as_of_us``."""
    counts: dict[tuple[str, str, str, str | None], list[int]] = defaultdict(list)
    for row in struck.to_pylist():
        key = row["fault"], row["do"], row["operation"], row["group"]
        last_us = as_of_us.get(row["store"], row["at_us"])
        to_us = last_us if row["to_us"] is None else min(row["to_us"], last_us)
        counts[key].append(max(to_us - row["at_us"], 0))
    found: dict[str, list[StruckRequests]] = defaultdict(list)
    for (fault, do, operation, group), lasted_us in counts.items():
        is_away = operation == EVERY_REQUEST
        found[fault].append(
            StruckRequests(
                do=do,
                operation="" if is_away else operation,
                group=group or "",
                count=len(lasted_us),
                away_us=sum(lasted_us) if is_away else None,
            )
        )
    for each in found.values():
        each.sort(key=lambda one: (one.away_us is None, -one.count, one.operation, one.group))
    return found
