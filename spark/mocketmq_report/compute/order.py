"""Finds violations of order: deliveries after a delivery of the same line that was due later.

A *line* is a level, or a scheme without levels, such as start-deliver times. A message stored after its due
time counts as due at its store time. A batch of rows finds its own violations. The other rows of a line in
the batch, sorted by place, have rising due times, and are the batch's *stairs*. A stair is still a violation
if another batch has a stair with an earlier place that was due later. For this comparison, a batch returns
its first and last stairs, and some stairs between them with the number of omitted stairs. These stairs
suffice if batches overlap only at their ends. Otherwise ``settle`` names the batches of which all stairs are
needed.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from mocketmq_report.compute.partial import Shape, empty
from mocketmq_report.ledger.codes import joined, packed
from mocketmq_report.ledger.rows import NONE, Ints, Rows

SHAPE: Final = Shape(("run", "scheme", "level"), ("deliveries", "violations"))
STAIRS: Final = pa.schema(
    [
        *(("run", pa.string()), ("scheme", pa.string()), ("level", pa.int64()), ("batch", pa.int64())),
        *(("place", pa.int64()), ("due_us", pa.int64())),
        ("left_out", pa.int64()),  # stairs omitted before this one
    ]
)
ENDS: Final = 256
"""Number of stairs that a batch returns from each of its ends."""
EVERY: Final = 512
"""Interval between the stairs that a batch returns between its ends."""


class Order(NamedTuple):
    """The known order of deliveries: tables of ``SHAPE`` and ``STAIRS``."""

    known: pa.Table
    stairs: pa.Table


class _Flight(NamedTuple):
    """The stairs of a line in a batch."""

    run: str
    batch: int
    place: Ints
    due: Ints
    left_out: Ints


def order(measured: Rows, batch: int, *, is_whole: bool = False) -> Order:
    """Find the order of a batch. Rows without offsets are ordered by the time of delivery.

    Rows with the same place count as ordered. If ``is_whole``, the result has all stairs.
    """
    rows = measured.where(~measured.is_any("scheme", ["levels"]) | (measured.numbers("level") != NONE))
    place = rows.numbers("delivered_offset")
    place = np.where(place == NONE, rows.numbers("delivered_us"), place)
    due = np.maximum(rows.numbers("due_us"), rows.numbers("stored_us"))
    known: dict[str, list[Any]] = {name: [] for name in SHAPE.names}
    stairs = [STAIRS.empty_table()]
    for of_line in _lines(rows, place, due):
        run, scheme = (found[0].as_py() for found in rows.taken(of_line[:1], "run", "scheme").values())
        level = rows.numbers("level")[of_line[0]]
        dues = due[of_line]
        is_stair = dues >= np.maximum.accumulate(dues)
        found = (run, scheme, _or_none(level), len(dues), (~is_stair).sum())
        for name, value in zip(SHAPE.names, found, strict=True):
            known[name].append(value)
        handed = np.flatnonzero(is_stair)
        chosen = np.arange(len(handed)) if is_whole else _chosen(len(handed))
        at = of_line[handed[chosen]]
        stairs.append(
            pa.table(
                {
                    **{"run": pa.repeat(run, len(at)), "scheme": pa.repeat(scheme, len(at))},
                    **{"level": np.full(len(at), level), "batch": np.full(len(at), batch)},
                    **{"place": place[at], "due_us": due[at]},
                    "left_out": np.diff(chosen, prepend=-1) - 1,
                },
                schema=STAIRS,
            )
        )
    return Order(pa.table(known, empty(SHAPE).schema), pa.concat_tables(stairs))


def _lines(rows: Rows, place: Ints, due: Ints) -> Sequence[Ints]:
    """Return the rows of each line, in order."""
    in_order = np.arange(len(rows)) if (place[1:] > place[:-1]).all() else np.lexsort((due, place))
    lines, size = packed(joined(map(rows.codes, ("run", "scheme", "level"))))
    if size < 1 << 16:
        lines = lines.astype(np.uint16)  # numpy sorts 16-bit numbers without comparisons
    in_order = in_order[np.argsort(lines[in_order], kind="stable")]
    lines = lines[in_order]
    found: list[Ints] = np.split(in_order, np.flatnonzero(lines[1:] != lines[:-1]) + 1)
    return found if len(rows) else []


def _or_none(level: int) -> int | None:
    return None if level == NONE else int(level)


def _chosen(stairs: int) -> Ints:
    """Choose the stairs to return, by number."""
    if stairs <= 2 * ENDS + EVERY:
        return np.arange(stairs)
    return np.concatenate(
        [
            np.arange(ENDS),
            np.arange(ENDS + EVERY - 1, stairs - ENDS, EVERY),
            np.arange(stairs - ENDS, stairs),
        ]
    )


def settle(stairs: pa.Table, stores: dict[str, str]) -> tuple[pa.Table, set[int]]:
    """Find the violations among the stairs, as a table of ``SHAPE``, or the batches of which all are needed.

    ``stores`` names the store of each run, because order holds only within a store.
    """
    found: dict[str, list[Any]] = {name: [] for name in SHAPE.names}
    needed: set[int] = set()
    for (_, scheme, level), flights in _flights(stairs, stores).items():
        starts = np.array([flight.place[0] for flight in flights])
        tops = np.array([flight.due[-1] for flight in flights])
        for number, flight in enumerate(flights):
            may_be = (starts < flight.place[-1]) & (tops > flight.due[0])
            may_be[number] = False
            if not may_be.any():
                continue
            others = [flights[other] for other in np.flatnonzero(may_be)]
            violations = _violations(flight, others)
            if violations is None:
                needed |= {each.batch for each in (flight, *others) if each.left_out.any()}
            elif violations:
                row = (flight.run, scheme, _or_none(level), 0, violations)
                for name, value in zip(SHAPE.names, row, strict=True):
                    found[name].append(value)
    return pa.table(found, empty(SHAPE).schema), needed


def _flights(stairs: pa.Table, stores: dict[str, str]) -> dict[tuple[str, str, int], list[_Flight]]:
    """Return the flights of each line of a store, by scheme and level."""
    found: dict[tuple[str, str, int], list[_Flight]] = {}
    if not stairs.num_rows:
        return found
    coded = stairs.combine_chunks()
    runs, schemes = (coded[name].combine_chunks().dictionary_encode() for name in ("run", "scheme"))
    keys = [runs.indices.to_numpy(), schemes.indices.to_numpy()]
    keys += [coded[name].to_numpy() for name in ("level", "batch")]
    columns = [coded[name].to_numpy() for name in ("place", "due_us", "left_out")]
    in_order = np.lexsort(keys[::-1])  # a stable sort keeps the stairs in order
    edges = np.zeros(len(in_order), bool)
    for values in keys:
        sorted_ = values[in_order]
        edges[1:] |= sorted_[1:] != sorted_[:-1]
    for at in np.split(in_order, np.flatnonzero(edges)):
        run, scheme, level, batch = (int(values[at[0]]) for values in keys)
        run_name: str = runs.dictionary[run].as_py()
        flight = _Flight(run_name, batch, *(values[at] for values in columns))
        line = (stores[run_name], schemes.dictionary[scheme].as_py(), level)
        found.setdefault(line, []).append(flight)
    return found


def _violations(flight: _Flight, others: list[_Flight]) -> int | None:
    """Count the stairs after another flight's stair that was due later; None if omitted stairs matter.

    Omitted stairs between two stairs are due no later than the second, and may come right after the first. So
    the latest due time before a place is known only within two bounds.
    """
    place = np.concatenate([each.place for each in others])
    due = np.concatenate([each.due for each in others])
    hidden = [np.flatnonzero(each.left_out) for each in others]
    hidden_from = np.concatenate([each.place[at - 1] for each, at in zip(others, hidden, strict=True)])
    hidden_due = np.concatenate([each.due[at] for each, at in zip(others, hidden, strict=True)])
    least = _Latest(place, due)
    most = _Latest(np.concatenate([place, hidden_from]), np.concatenate([due, hidden_due]))
    is_late = least.before(flight.place) > flight.due
    if (is_late != (most.before(flight.place) > flight.due)).any():
        return None
    gaps = np.flatnonzero(flight.left_out)
    is_gap_late = least.before(flight.place[gaps - 1]) > flight.due[gaps]
    if (~is_gap_late & (most.before(flight.place[gaps]) > flight.due[gaps - 1])).any():
        return None
    return int(is_late.sum() + flight.left_out[gaps][is_gap_late].sum())


class _Latest:
    """The latest due time before a place."""

    def __init__(self, place: Ints, due: Ints) -> None:
        in_order = np.argsort(place, kind="stable")
        self._place = place[in_order]
        self._due = np.concatenate([[NONE], np.maximum.accumulate(due[in_order])])

    def before(self, places: Ints) -> Ints:
        found: Ints = self._due[np.searchsorted(self._place, places)]
        return found
