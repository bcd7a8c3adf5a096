"""Finds how another system would have treated a ledger's delays, by its limits (``mocketmq.delay_limits``).

The kernel judges the rows of a part as the broker judges messages. Only head-of-line blocking needs all
parts: a part returns the arrival and due times of its messages, and the merge computes the blocking. Only
first attempts count, because producers did not request the delays of retries. A due time without a level
counts as a timer if the file does not say how the producer requested it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.delay_limits import DelayLimits, WaitingLine
from mocketmq_report.compute import bins
from mocketmq_report.document import DelayLimitsExample, DelayLimitsFindings, DelayLimitsVerdict, VerdictName
from mocketmq_report.ledger.ledger import Columns, LedgerPart
from mocketmq_report.ledger.rows import NONE, Ints, Rows
from mocketmq_report.ledger.work import Carrier

EXAMPLES: Final = 5
"""Maximum number of examples of a verdict."""
_RETRY: Final = "%RETRY%"
_VERDICTS: Final[tuple[VerdictName, ...]] = get_args(VerdictName)
_REFUSED, _AT_ONCE, _ROUNDED, _HELD_UP = range(4)
_LEFT_AS_IT_IS: Final = -1
_MOVES: Final = pa.schema(
    [("verdict", pa.int64()), ("value", pa.int64()), ("count", pa.int64()), ("most", pa.int64())]
)
_CASES: Final = pa.schema(
    [
        *(("verdict", pa.int64()), ("moved_us", pa.int64()), ("part", pa.int64())),
        *(("run", pa.string()), ("topic", pa.string()), ("parked_offset", pa.int64())),
        *(("stored_us", pa.int64()), ("due_us", pa.int64())),
    ]
)
_LINES: Final = pa.schema(
    [
        *(("store", pa.int64()), ("topic", pa.dictionary(pa.int32(), pa.string())), ("part", pa.int64())),
        *(("run", pa.dictionary(pa.int32(), pa.string())), ("parked_offset", pa.int64())),
        *(("stored_us", pa.int64()), ("due_us", pa.int64()), ("granted_us", pa.int64())),
    ]
)


class Asked(NamedTuple):
    """The judged delays of some rows."""

    delays: int
    moves: pa.Table  # counts of due times, by verdict and by how far they moved
    cases: pa.Table  # the worst rows of each verdict
    lines: pa.Table  # messages that other messages may hold up


NOTHING: Final = Asked(0, _MOVES.empty_table(), _CASES.empty_table(), _LINES.empty_table())


def asked(
    delay_limits: DelayLimits, rows: Rows, stores: Ints, part: int, cutoffs_us: Sequence[int] | None
) -> Asked:
    """Judge the delays of some rows."""
    due, stored = rows.numbers("due_us"), rows.numbers("stored_us")
    is_asked = (stored != NONE) & (due > stored) & (rows.numbers("attempt") <= 1)
    is_asked &= ~rows.looked_up("topic", lambda topic: str(topic).startswith(_RETRY)).astype(bool)
    rows, stores, due, stored = rows.where(is_asked), stores[is_asked], due[is_asked], stored[is_asked]
    delay = due - stored
    has_level = rows.numbers("level") != NONE
    judged = ~has_level if delay_limits.knows_levels else np.ones(len(delay), bool)
    ignored = ~has_level if "timer" in delay_limits.ignores else np.zeros(len(delay), bool)
    refused = judged & delay_limits.is_refused(delay, ignored=ignored)
    at_once = judged & delay_limits.is_at_once(delay, ignored=ignored)
    is_kept = ~(refused | at_once)
    granted = np.where(judged & is_kept & ~has_level, delay_limits.rounded_us(stored, due), due)
    verdict = np.full(len(delay), _LEFT_AS_IT_IS)
    moved = granted - due
    for number, is_so, by_us in (
        (_REFUSED, refused, delay - delay_limits.longest_us),
        (_AT_ONCE, at_once, -delay),
        (_ROUNDED, moved > 0, moved),
    ):
        verdict[is_so] = number
        moved = np.where(is_so, by_us, moved)
    lines = _LINES.empty_table()
    if delay_limits.ahead is not None:
        waits = rows.where(is_kept)
        lines = pa.table(
            {
                **{"store": stores[is_kept], "part": np.full(len(waits), part)},
                **{name: _coded(waits.column(name)) for name in ("topic", "run")},
                **{name: waits.numbers(name) for name in ("parked_offset", "stored_us", "due_us")},
                "granted_us": granted[is_kept],
            }
        ).select(_LINES.names)
    return Asked(
        len(delay),
        _counted(verdict, moved, cutoffs_us),
        _worst(_cases(rows, verdict, moved, part)),
        lines.cast(_LINES),
    )


def join(made: Iterable[Asked]) -> Asked:
    """Merge the results of several parts."""
    found = [NOTHING, *made]
    moves, cases, lines = (pa.concat_tables(tables) for tables in list(zip(*found, strict=True))[1:])
    return Asked(sum(each.delays for each in found), _added(moves), _worst(cases), lines)


class _IdLook(NamedTuple):
    """A job for the carrier: read the ids of some messages, by number and store time."""

    wanted: frozenset[tuple[int, int]]

    def columns(self, part: int) -> Columns:  # noqa: ARG002 - the same for all parts
        return Columns(("run", "parked_offset", "stored_us", "message_id"), ())

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> dict[tuple[int, int], str]:  # noqa: ARG002
        """Run the job on one part."""
        found = {}
        for batch in batches:
            rows = Rows.of([batch])
            stored = rows.numbers("stored_us")
            may_be = np.flatnonzero(np.isin(stored, [stored_us for _, stored_us in self.wanted]))
            ids = rows.column("message_id").take(pa.array(may_be)).to_pylist()
            for at, message_id in zip(may_be, ids, strict=True):
                key = int(rows.numbers("parked_offset")[at]), int(stored[at])
                if key in self.wanted:
                    found[key] = message_id
        return found

    def join(self, made: Sequence[dict[tuple[int, int], str]]) -> dict[tuple[int, int], str]:
        """Merge the results of several parts."""
        return {key: message_id for each in made for key, message_id in each.items()}


def findings(
    delay_limits: DelayLimits, made: Asked, carry: Carrier, parts: Mapping[int, LedgerPart]
) -> DelayLimitsFindings:
    """Make the findings for a report."""
    held, worst_held = _held(delay_limits, made.lines)
    moves = pa.concat_tables([made.moves, held])
    cases = pa.concat_tables([made.cases, worst_held])
    rows = cases.to_pylist()
    ids: dict[tuple[int, int], str] = {}
    if rows:
        last = len(parts) - 1  # higher numbers are pieces of the last part, which a carrier may divide
        chosen = {part: parts[part] for part in sorted({min(row["part"], last) for row in rows})}
        ids = carry(_IdLook(frozenset(map(_key, rows))), chosen)
    verdicts = []
    for number, name in enumerate(_VERDICTS):
        counted = moves.filter(pc.equal(moves["verdict"], number)).sort_by("value")
        count = int(pc.sum(counted["count"]).as_py() or 0)
        if count:
            upto = np.cumsum(counted["count"].to_numpy())
            most = counted["most"].to_numpy()
            size = np.abs(most)
            examples = [_example(row, ids, delay_limits) for row in rows if row["verdict"] == number]
            half = most[np.searchsorted(upto, (count + 1) // 2)]
            verdicts.append(
                DelayLimitsVerdict(
                    verdict=name,
                    messages=count,
                    p50_us=int(half),
                    max_us=int(most[np.argmax(size)]),
                    examples=examples,
                )
            )
    not_delayed = sum(each.messages for each in verdicts if each.verdict in ("refused", "at once"))
    return DelayLimitsFindings(
        name=delay_limits.name,
        title=delay_limits.title,
        delays=made.delays,
        delayed=made.delays - not_delayed,
        verdicts=verdicts,
    )


def held_us(ahead: int, stored_us: Ints, due_us: Ints) -> Ints:
    """Return the effective due times of a line's messages, each no earlier than the messages that block it.

    The messages are in order of ``stored_us``. :class:`WaitingLine` computes the same message by message.
    """
    if ahead == 1:
        found: Ints = np.maximum.accumulate(due_us)
        return found
    waiting = np.arange(len(due_us)) - np.searchsorted(np.sort(due_us), stored_us, side="right")
    if not (waiting >= ahead).any():
        return due_us
    line = WaitingLine(ahead)
    return np.array([line.join(int(now), int(due)) for now, due in zip(stored_us, due_us, strict=True)])


def _held(delay_limits: DelayLimits, lines: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Count the blocked messages, and find the worst of them."""
    if delay_limits.ahead is None or not lines.num_rows:
        return _MOVES.empty_table(), _CASES.empty_table()
    table = lines.unify_dictionaries().combine_chunks()
    keys = [table[name].combine_chunks() for name in ("store", "topic")]
    store, topic = keys[0].to_numpy(), keys[1].indices.to_numpy()
    stored, due = table["stored_us"].to_numpy(), table["granted_us"].to_numpy()
    in_order = np.lexsort((due, stored, topic, store))
    edges = (np.diff(store[in_order]) != 0) | (np.diff(topic[in_order]) != 0)
    moved = np.zeros(len(due), np.int64)
    for at in np.split(in_order, np.flatnonzero(edges) + 1):
        moved[at] = held_us(delay_limits.ahead, stored[at], due[at]) - due[at]
    verdict = np.where(moved > 0, _HELD_UP, _LEFT_AS_IT_IS)
    chosen = np.argsort(moved)[::-1][:EXAMPLES]
    worst = table.take(chosen).append_column("moved_us", pa.array(moved[chosen]))
    worst = worst.append_column("verdict", pa.array(verdict[chosen])).select(_CASES.names).cast(_CASES)
    return _counted(verdict, moved, ()), _worst(worst.filter(pc.greater(worst["moved_us"], 0)))


def _counted(verdict: Ints, moved: Ints, cutoffs_us: Sequence[int] | None) -> pa.Table:
    """Count due times by how far they moved."""
    is_in = verdict != _LEFT_AS_IT_IS
    verdict, moved = verdict[is_in], moved[is_in]
    values = bins.keys(moved, cutoffs_us)
    ones = np.ones(len(moved), np.int64)
    return _added(pa.table([verdict, values, ones, moved], schema=_MOVES))


def _added(moves: pa.Table) -> pa.Table:
    grouped = moves.group_by(["verdict", "value"]).aggregate([("count", "sum"), ("most", "max")])
    return grouped.rename_columns(["verdict", "value", "count", "most"]).select(_MOVES.names).cast(_MOVES)


def _cases(rows: Rows, verdict: Ints, moved: Ints, part: int) -> pa.Table:
    """Select the worst rows of each verdict."""
    size = np.abs(moved)
    chosen = [np.zeros(0, np.int64)]
    for number in (_REFUSED, _AT_ONCE, _ROUNDED):
        at = np.flatnonzero(verdict == number)
        if len(at) > EXAMPLES:
            at = at[np.argpartition(size[at], -EXAMPLES)[-EXAMPLES:]]
        chosen.append(at)
    at = np.concatenate(chosen)
    taken = pa.array(at)
    return pa.table(
        {
            **{"verdict": verdict[at], "moved_us": moved[at], "part": np.full(len(at), part)},
            **{name: rows.column(name).take(taken).cast(pa.string()) for name in ("run", "topic")},
            **{name: rows.numbers(name)[at] for name in ("parked_offset", "stored_us", "due_us")},
        },
        schema=_CASES,
    )


def _worst(cases: pa.Table) -> pa.Table:
    """Select the worst cases of each verdict, the worst first."""
    sized = cases.append_column("size", pc.abs(cases["moved_us"]))
    order = [("size", "descending"), ("stored_us", "ascending"), ("parked_offset", "ascending")]
    sized = sized.sort_by(order)
    found = [_CASES.empty_table()]
    for number in range(len(_VERDICTS)):
        of = sized.filter(pc.equal(sized["verdict"], number)).slice(0, EXAMPLES)
        found.append(of.drop_columns(["size"]))
    return pa.concat_tables(found)


def _coded(column: pa.Array) -> pa.Array:
    return column.cast(pa.dictionary(pa.int32(), pa.string()))


def _key(row: Mapping[str, int]) -> tuple[int, int]:
    return row["parked_offset"], row["stored_us"]


def _example(
    row: Mapping[str, int], ids: Mapping[tuple[int, int], str], delay_limits: DelayLimits
) -> DelayLimitsExample:
    delay_us = row["due_us"] - row["stored_us"]
    is_refused = row["verdict"] == _REFUSED
    granted_us = 0 if row["verdict"] == _AT_ONCE else delay_us + row["moved_us"]
    return DelayLimitsExample(
        message_id=ids.get(_key(row)),
        run=str(row["run"]),
        topic=str(row["topic"]),
        stored_us=row["stored_us"],
        delay_us=delay_us,
        granted_us=None if is_refused else granted_us,
        words=delay_limits.words(delay_us) if is_refused else None,
    )
