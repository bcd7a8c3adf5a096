"""Find which injected faults and outages held up which messages.

A message waits until it is pulled, and then until it is acknowledged. A fault that struck a receive, or an
acknowledgement, meanwhile held it up from then on. It explains this stage if that was at least half of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mocketmq.clock import LATEST_US, US_PER_S
from mocketmq.message.names import RETRY_PREFIX
from mocketmq_report.document import StruckRequests
from mocketmq_report.ledger.columns import EVERY_REQUEST
from mocketmq_report.ledger.rows import Bools, Ints, Rows

Operation = Literal["receive", "ack"]

_UNANSWERED: Final = ("late", "never", "close")
"""Faults for which a receive may have taken messages that its consumer did not get in time."""


class Strikes(NamedTuple):
    """What struck requests of one kind, in order. An unknown topic or group may have been any."""

    store: str
    operation: str
    do: str
    topic: str | None
    group: str | None
    at_us: Ints
    to_us: Ints
    fault: np.ndarray[Any, Any]

    def are_about(self, rows: Rows, stores: Mapping[str, str], operation: Operation) -> Bools:
        """Whether a request of this kind could have been for each row."""
        found = rows.is_any("run", [run for run, store in stores.items() if store == self.store])
        if self.topic is not None:
            retries = () if self.group is None else (RETRY_PREFIX + self.group,)
            found &= rows.is_any("topic", [self.topic, *retries])
        if operation == "ack" and self.group is not None:
            found &= rows.is_any("pulled_by", [self.group, None])
        return found


def strikes(struck: pa.Table) -> tuple[Strikes, ...]:
    """Sort rows of ``ledger.columns.STRUCK`` out."""
    found: dict[tuple[str, str, str, str | None, str | None], list[tuple[int, int, str]]] = defaultdict(list)
    for row in struck.to_pylist():
        key = row["store"], row["operation"], row["do"], row["topic"], row["group"]
        at_us = row["at_us"]
        last_us = LATEST_US if row["operation"] == EVERY_REQUEST else at_us
        found[key].append((at_us, last_us if row["to_us"] is None else row["to_us"], row["fault"]))
    made = []
    for key, rows in found.items():
        at_us, to_us, fault = zip(*sorted(rows), strict=True)
        made.append(Strikes(*key, np.array(at_us), np.array(to_us), np.array(fault, object)))
    return tuple(made)


def explained(
    all_strikes: Iterable[Strikes],
    rows: Rows,
    stores: Mapping[str, str],
    operation: Operation,
    begin_us: Ints,
    end_us: Ints,
) -> pa.Array:
    """The fault that explains this stage of each row, if any: the one that held it up the longest.

    ``stores`` names the store of each run.
    """
    fault = np.full(len(rows), None, object)
    least = (end_us - begin_us + 1) // 2
    for each in all_strikes:
        is_away = each.operation == EVERY_REQUEST
        is_taken = operation == "ack" and each.operation == "receive" and each.do in _UNANSWERED
        if not (is_away or is_taken or each.operation == operation):
            continue
        is_about = each.are_about(rows, stores, operation)
        after = np.searchsorted(each.at_us, begin_us)  # the first since the begin
        for number in (after,) if is_taken else (after - 1, after):
            at = np.clip(number, 0, len(each.at_us) - 1)
            at_us, to_us = each.at_us[at], each.to_us[at]
            until = np.minimum(end_us, to_us) if is_away and operation == "ack" else end_us
            held = until - np.maximum(begin_us, at_us)
            is_held = is_about & (at == number) & (at_us <= end_us) & (to_us >= begin_us) & (held >= least)
            if is_taken:  # by this very request
                is_held &= at_us - begin_us <= US_PER_S
            fault[is_held] = each.fault[at[is_held]]
            least = np.where(is_held, held + 1, least)
    return pa.array(fault, pa.string())


def counted(struck: pa.Table, as_of_us: Mapping[str, int]) -> dict[str, list[StruckRequests]]:
    """What each fault struck, the most frequent first. Absences end by ``as_of_us`` of a store."""
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
