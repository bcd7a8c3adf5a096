"""The kernel: turns a part of a ledger into a summary, in one pass over its rows.

The kernel needs only NumPy and Arrow, and runs wherever the part is readable. Batches and parts are
independent of each other. A batch returns *clues* for questions that it cannot answer alone: whether a
message has rows in another batch, whether a delivery violates the order, and which deliveries are the worst
of all. The merged clues answer most questions; the remaining questions need a second look at some parts.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from mocketmq.delay_limits import DelayLimits
from mocketmq_report.compute import (
    causes,
    herds,
    lateness,
    limit_findings,
    order,
    outcomes,
    repeats,
    stages,
    timeline,
    worst,
)
from mocketmq_report.compute.lateness import LatenessRows
from mocketmq_report.compute.partial import coded, empty, merge
from mocketmq_report.compute.spans import SkippedTime
from mocketmq_report.compute.struck import Strikes, held_up
from mocketmq_report.compute.summary import SHAPES, Summary, merged
from mocketmq_report.ledger import quality
from mocketmq_report.ledger.ledger import Columns
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

BATCH_ROWS: Final = 524_288
"""Number of rows up to which the kernel joins small batches."""
BATCHES: Final = 1 << 20
"""Maximum number of batches of a part."""


_COLUMNS: Final = (
    *("run", "state", "parked_offset", "delivered_offset", "topic", "scheme", "level", "forced"),
    *(
        "born_us",
        "stored_us",
        "due_us",
        "picked_us",
        "delivered_us",
        "pulled_us",
        "acked_us",
        "pulled_by",
        "fault",
        "broker",
    ),
)
_TEXTS: Final = ("message_id", "attempt")
"""Columns that identify messages without an offset."""


class KernelSettings(NamedTuple):
    """The kernel's settings."""

    stores: dict[str, str]  # the store of each run
    as_of_us: dict[str, int | None]  # by run
    cutoffs_us: tuple[int, ...] | None  # limits between bins; None to keep lateness exact
    step_us: int  # length of a step of the timeline
    on_time_us: int  # see ``on_time.py``
    skipped: SkippedTime  # time that clock moves skipped
    minute_cutoffs_us: tuple[int, ...] | None = None  # limits of bins by minute; None: no bins by minute
    strikes: tuple[Strikes, ...] = ()  # consumers' requests into which faults were injected
    delay_limits: DelayLimits | None = None  # the limits for judging the delays

    @property
    def store_names(self) -> list[str]:
        """The names of the stores, by number."""
        return sorted({*self.stores.values()})


class Clues(NamedTuple):
    """The facts of a part for questions over all parts; ``again`` has a batch's repeated rows of messages."""

    seen: pa.Table
    again: pa.Table
    stairs: pa.Table
    times: pa.Table


class Partial(NamedTuple):
    """The kernel's results for some parts."""

    summary: Summary
    clues: dict[int, Clues]  # by part
    asked: limit_findings.Asked = limit_findings.NOTHING


class KernelResult(NamedTuple):
    """The results of a second look: possible repeats, the worst rows, and stairs."""

    again: pa.Table
    worst: pa.Table
    stairs: pa.Table


class FirstLook(NamedTuple):
    """A job for the carrier: run the kernel on a part."""

    settings: KernelSettings

    def columns(self, part: int) -> Columns:  # noqa: ARG002 - the same for all parts
        return Columns(_COLUMNS if self.settings.delay_limits is None else (*_COLUMNS, "attempt"), _TEXTS)

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> Partial:
        """Summarize a part."""
        made: list[tuple[Summary, Clues]] = []
        judged: list[limit_findings.Asked] = []
        delay_limits = self.settings.delay_limits
        for number, rows in enumerate(_joined(batches), start=part * BATCHES):
            faults = quality.faults(rows)
            batch = _Batch(rows.where(_is_null(faults)), self.settings)
            known, stairs = order.order(batch.measured.rows, number)
            seen = repeats.seen(batch.rows, batch.stores)
            if delay_limits is not None:
                judged.append(
                    limit_findings.asked(
                        delay_limits, batch.rows, batch.stores, part, self.settings.cutoffs_us
                    )
                )
            again = _again(batch, self.settings, seen.is_twice)
            made.append(
                (
                    _summary(batch, self.settings, faults, known),
                    Clues(seen.numbers, again, stairs, worst.times(batch.lates)),
                )
            )
        if not made:
            return Partial(EMPTY, {})
        summaries, clues = zip(*made, strict=True)
        clue = Clues(*(pa.concat_tables(tables) for tables in zip(*clues, strict=True)))
        clue = clue._replace(times=worst.worst_times(clue.times))
        return Partial(merged(summaries), {part: clue}, limit_findings.join(judged))

    def join(self, made: Sequence[Partial]) -> Partial:
        """Merge the results of several parts."""
        summaries = [each.summary for each in made if each.clues]
        clues = {part: clue for each in made for part, clue in each.clues.items()}
        asked = limit_findings.join(each.asked for each in made)
        return Partial(merged(summaries) if summaries else EMPTY, clues, asked)


class SecondLook(NamedTuple):
    """A job for the carrier: answer the open questions of the clues."""

    settings: KernelSettings
    suspects: pa.Table
    bound: worst.Bound | None
    reaching: frozenset[int]  # the parts that contain some of the worst rows
    batches: frozenset[int]  # batches whose stairs are needed in full

    def columns(self, part: int) -> Columns:
        if part in self.reaching:
            return Columns(tuple(dict.fromkeys((*_COLUMNS, *_TEXTS, *worst.COLUMNS))), ())
        return Columns(_COLUMNS, _TEXTS)

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> KernelResult:
        """Read a part again."""
        found = [_NOTHING]
        for number, rows in enumerate(_joined(batches), start=part * BATCHES):
            if self.bound is not None and number not in self.batches and not self.suspects.num_rows:
                rows = rows.where(worst.may_be(rows, self.bound))  # noqa: PLW2901 - most rows are not
            batch = _Batch(rows.where(_is_null(quality.faults(rows))), self.settings)
            again, late, stairs = _NOTHING
            if self.suspects.num_rows:
                again = _again(
                    batch, self.settings, repeats.elsewhere(batch.rows, batch.stores, self.suspects)
                )
            if self.bound is not None and part in self.reaching:
                late = worst.worst(batch.lates, self.bound)
            if number in self.batches:
                stairs = order.order(batch.measured.rows, number, is_whole=True).stairs
            found.append(KernelResult(again, late, stairs))
        return self.join(found)

    def join(self, made: Sequence[KernelResult]) -> KernelResult:
        """Merge the results of several parts."""
        again, late, stairs = (pa.concat_tables(tables) for tables in zip(_NOTHING, *made, strict=True))
        return KernelResult(again, worst.worst_of(late), stairs)


class _Batch:
    """The usable rows of a batch."""

    def __init__(self, rows: Rows, settings: KernelSettings) -> None:
        self.rows = rows
        numbers = {name: number for number, name in enumerate(settings.store_names)}
        self.stores: Ints = rows.looked_up("run", lambda run: numbers[settings.stores[run]])
        as_of_us: Ints = rows.looked_up("run", lambda run: _or_none(settings.as_of_us.get(run)))
        self.is_overdue: Bools = outcomes.is_overdue(rows, ("pending",), as_of_us)
        measured = rows.where(rows.is_any("state", ["delivered"]) & rows.lacks("forced"))
        due = measured.numbers("due_us")
        self.measured = LatenessRows(measured, measured.numbers("delivered_us") - due, is_overdue=False)
        owed = outcomes.is_overdue(rows, ("pending", "lost"), as_of_us)
        is_delivered = rows.is_any("state", ["delivered"])
        self.delivered = rows.where(is_delivered)
        self.delivered_as_of_us = as_of_us[is_delivered]
        overdue = rows.where(owed)
        self.overdue = LatenessRows(overdue, as_of_us[owed] - overdue.numbers("due_us"), is_overdue=True)

    @property
    def lates(self) -> list[LatenessRows]:
        return [self.measured, self.overdue]


EMPTY: Final = Summary(**{name: coded([empty(shape)], shape) for name, shape in SHAPES.items()})
"""The summary of no rows."""
_OF_ROWS: Final = ("late", "waits", "busy")
"""Tables with up to two rows for each row of the data."""
_NOTHING: Final = KernelResult(
    repeats.AGAIN.empty_table(), worst.ROWS.empty_table(), order.STAIRS.empty_table()
)


def _summary(batch: _Batch, settings: KernelSettings, faults: pa.Array, known: pa.Table) -> Summary:
    cutoffs_us = settings.cutoffs_us
    odd = dict(quality.odd(batch.rows))
    tables = {
        "outcomes": [outcomes.outcomes(batch.rows, batch.is_overdue)],
        "lateness": [lateness.lateness(late, cutoffs_us) for late in batch.lates],
        "timeline": [timeline.timeline(batch.measured, cutoffs_us, settings.step_us)],
        "stages": [stages.stages(batch.measured, settings.skipped)],
        "herds": [herds.herds(batch.measured)],
        "late": [causes.late(batch.measured, batch.overdue, settings.on_time_us)],
        "waits": [
            causes.waits(
                batch.delivered,
                batch.delivered_as_of_us,
                settings.on_time_us,
                settings.skipped,
                partial(held_up, settings.strikes, stores=settings.stores) if settings.strikes else None,
            )
        ],
        "busy": [causes.busy(batch.delivered)],
        "disorder": [known],
        "faults": [_counted(faults)],
        "odd": [pa.table({"name": pa.array(odd), "count": pa.array(odd.values(), pa.int64())})],
    }
    if settings.minute_cutoffs_us is not None:
        tables["minutes"] = [lateness.minutes(late, settings.minute_cutoffs_us) for late in batch.lates]
    return EMPTY._replace(**{name: _merged(name, found) for name, found in tables.items()})


def _again(batch: _Batch, settings: KernelSettings, is_again: Bools) -> pa.Table:
    return repeats.again(batch.rows, batch.stores, settings.store_names, batch.is_overdue, is_again)


def _merged(name: str, found: Sequence[pa.Table]) -> pa.Table:
    """Merge the results for one table, unless all keys are unique."""
    shape = SHAPES[name]
    table = coded(found, shape)
    is_once = name not in _OF_ROWS and sum(each.num_rows > 0 for each in found) <= 1
    return table if is_once else merge([table], shape)


def _counted(faults: pa.Array) -> pa.Table:
    counts = faults.value_counts()
    return pa.table({"reason": counts.field("values"), "count": counts.field("counts")})


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """Join small batches, and divide large batches."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield Rows.of(waiting)
            waiting, rows = [], 0
    if waiting:
        yield Rows.of(waiting)


def _is_null(column: pa.Array) -> Bools:
    found: Bools = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _or_none(number: int | None) -> int:
    return NONE if number is None else number
