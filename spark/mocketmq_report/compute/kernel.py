"""The kernel: turns a part of a ledger into a summary, in one pass over its rows.

It needs only NumPy and Arrow, and runs wherever the part can be read. Its batches are independent of each
other, and so are parts. What one batch cannot decide, it hands on as a clue: whether a message has rows
in another, whether a delivery came too late for its order, and which deliveries are the worst of all. Most
clues are settled by themselves; for the others some parts get a second look.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from mocketmq.contracts.contract import Contract
from mocketmq_report.compute import (
    causes,
    contracted,
    herds,
    lateness,
    order,
    outcomes,
    repeats,
    stages,
    timeline,
    worst,
)
from mocketmq_report.compute.lateness import Late
from mocketmq_report.compute.partial import coded, empty, merge
from mocketmq_report.compute.struck import Strikes, explained
from mocketmq_report.compute.summary import SHAPES, Summary, merged
from mocketmq_report.ledger import quality
from mocketmq_report.ledger.ledger import Columns
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

BATCH_ROWS: Final = 524_288
"""The kernel joins batches until they have so many rows."""
BATCHES: Final = 1 << 20
"""The most batches of a part."""


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
    ),
)
_TEXTS: Final = ("message_id", "attempt")
"""Tell messages without an offset apart."""


class Setting(NamedTuple):
    """What the kernel is to know beside the rows."""

    stores: dict[str, str]  # of runs
    as_of_us: dict[str, int | None]  # of runs
    cutoffs_us: tuple[int, ...] | None  # between bins; None: lateness is kept exactly
    step_us: int  # of the timeline
    on_time_us: int
    minute_cutoffs_us: tuple[int, ...] | None = None  # of lateness by minute; None: it is not wanted
    strikes: tuple[Strikes, ...] = ()  # of requests of consumers, by faults
    contract: Contract | None = None  # by which delays are judged

    @property
    def store_names(self) -> list[str]:
        """Each store, by number."""
        return sorted({*self.stores.values()})


class Clues(NamedTuple):
    """What only all parts together can decide; ``again`` are rows of messages with several in a batch."""

    seen: pa.Table
    again: pa.Table
    stairs: pa.Table
    times: pa.Table


class Partial(NamedTuple):
    """What the kernel makes of parts."""

    summary: Summary
    clues: dict[int, Clues]  # by part
    asked: contracted.Asked = contracted.NOTHING


class KernelResult(NamedTuple):
    """What a second look found: rows of messages that may have several, the worst rows, and stairs."""

    again: pa.Table
    worst: pa.Table
    stairs: pa.Table


class FirstLook(NamedTuple):
    """The work of the kernel on a part."""

    setting: Setting

    def columns(self, part: int) -> Columns:  # noqa: ARG002 - the same for all parts
        """What to read of a part."""
        return Columns(_COLUMNS if self.setting.contract is None else (*_COLUMNS, "attempt"), _TEXTS)

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> Partial:
        """Summarize a part."""
        made: list[tuple[Summary, Clues]] = []
        judged: list[contracted.Asked] = []
        contract = self.setting.contract
        for number, rows in enumerate(_joined(batches), start=part * BATCHES):
            faults = quality.faults(rows)
            batch = _Batch(rows.where(_is_null(faults)), self.setting)
            known, stairs = order.order(batch.measured.rows, number)
            seen = repeats.seen(batch.rows, batch.stores)
            if contract is not None:
                judged.append(
                    contracted.asked(contract, batch.rows, batch.stores, part, self.setting.cutoffs_us)
                )
            again = _again(batch, self.setting, seen.is_twice)
            made.append(
                (
                    _summary(batch, self.setting, faults, known),
                    Clues(seen.numbers, again, stairs, worst.times(batch.lates)),
                )
            )
        if not made:
            return Partial(EMPTY, {})
        summaries, clues = zip(*made, strict=True)
        clue = Clues(*(pa.concat_tables(tables) for tables in zip(*clues, strict=True)))
        clue = clue._replace(times=worst.first(clue.times))
        return Partial(merged(summaries), {part: clue}, contracted.join(judged))

    def join(self, made: Sequence[Partial]) -> Partial:
        """Join what was made of several parts."""
        summaries = [each.summary for each in made if each.clues]
        clues = {part: clue for each in made for part, clue in each.clues.items()}
        asked = contracted.join(each.asked for each in made)
        return Partial(merged(summaries) if summaries else EMPTY, clues, asked)


class SecondLook(NamedTuple):
    """The work of looking for what the clues ask for."""

    setting: Setting
    suspects: pa.Table
    bound: worst.Bound | None
    reaching: frozenset[int]  # parts with some of the worst
    batches: frozenset[int]  # whose stairs are needed in full

    def columns(self, part: int) -> Columns:
        """What to read of a part."""
        if part in self.reaching:
            return Columns(tuple(dict.fromkeys((*_COLUMNS, *_TEXTS, *worst.COLUMNS))), ())
        return Columns(_COLUMNS, _TEXTS)

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> KernelResult:
        """Look at a part again."""
        found = [_NOTHING]
        for number, rows in enumerate(_joined(batches), start=part * BATCHES):
            if self.bound is not None and number not in self.batches and not self.suspects.num_rows:
                rows = rows.where(worst.may_be(rows, self.bound))  # noqa: PLW2901 - most are not
            batch = _Batch(rows.where(_is_null(quality.faults(rows))), self.setting)
            again, late, stairs = _NOTHING
            if self.suspects.num_rows:
                again = _again(
                    batch, self.setting, repeats.elsewhere(batch.rows, batch.stores, self.suspects)
                )
            if self.bound is not None and part in self.reaching:
                late = worst.worst(batch.lates, self.bound)
            if number in self.batches:
                stairs = order.order(batch.measured.rows, number, is_whole=True).stairs
            found.append(KernelResult(again, late, stairs))
        return self.join(found)

    def join(self, made: Sequence[KernelResult]) -> KernelResult:
        """Join what was found in several parts."""
        again, late, stairs = (pa.concat_tables(tables) for tables in zip(_NOTHING, *made, strict=True))
        return KernelResult(again, worst.worst_of(late), stairs)


class _Batch:
    """The rows of a batch that can be used, sorted out."""

    def __init__(self, rows: Rows, setting: Setting) -> None:
        self.rows = rows
        numbers = {name: number for number, name in enumerate(setting.store_names)}
        self.stores: Ints = rows.looked_up("run", lambda run: numbers[setting.stores[run]])
        as_of_us: Ints = rows.looked_up("run", lambda run: _or_none(setting.as_of_us.get(run)))
        self.is_overdue: Bools = outcomes.is_overdue(rows, ("pending",), as_of_us)
        measured = rows.where(rows.is_any("state", ["delivered"]) & rows.lacks("forced"))
        due = measured.numbers("due_us")
        self.measured = Late(measured, measured.numbers("delivered_us") - due, is_overdue=False)
        owed = outcomes.is_overdue(rows, ("pending", "lost"), as_of_us)
        is_delivered = rows.is_any("state", ["delivered"])
        self.delivered = rows.where(is_delivered)
        self.delivered_as_of_us = as_of_us[is_delivered]
        overdue = rows.where(owed)
        self.overdue = Late(overdue, as_of_us[owed] - overdue.numbers("due_us"), is_overdue=True)

    @property
    def lates(self) -> list[Late]:
        return [self.measured, self.overdue]


EMPTY: Final = Summary(**{name: coded([empty(shape)], shape) for name, shape in SHAPES.items()})
"""The summary of no rows."""
_OF_ROWS: Final = ("late", "waits", "busy")
"""Tables that are made with a row for each row of the data, or two."""
_NOTHING: Final = KernelResult(
    repeats.AGAIN.empty_table(), worst.ROWS.empty_table(), order.STAIRS.empty_table()
)


def _summary(batch: _Batch, setting: Setting, faults: pa.Array, known: pa.Table) -> Summary:
    cutoffs_us = setting.cutoffs_us
    odd = dict(quality.odd(batch.rows))
    tables = {
        "outcomes": [outcomes.outcomes(batch.rows, batch.is_overdue)],
        "lateness": [lateness.lateness(late, cutoffs_us) for late in batch.lates],
        "timeline": [timeline.timeline(batch.measured, cutoffs_us, setting.step_us)],
        "stages": [stages.stages(batch.measured)],
        "herds": [herds.herds(batch.measured)],
        "late": [causes.late(batch.measured, batch.overdue, setting.on_time_us)],
        "waits": [
            causes.waits(
                batch.delivered,
                batch.delivered_as_of_us,
                setting.on_time_us,
                partial(explained, setting.strikes, stores=setting.stores) if setting.strikes else None,
            )
        ],
        "busy": [causes.busy(batch.delivered)],
        "disorder": [known],
        "faults": [_counted(faults)],
        "odd": [pa.table({"name": pa.array(odd), "count": pa.array(odd.values(), pa.int64())})],
    }
    if setting.minute_cutoffs_us is not None:
        tables["minutes"] = [lateness.minutes(late, setting.minute_cutoffs_us) for late in batch.lates]
    return EMPTY._replace(**{name: _merged(name, found) for name, found in tables.items()})


def _again(batch: _Batch, setting: Setting, is_again: Bools) -> pa.Table:
    return repeats.again(batch.rows, batch.stores, setting.store_names, batch.is_overdue, is_again)


def _merged(name: str, found: Sequence[pa.Table]) -> pa.Table:
    """Merge what was found for one table, unless each of its keys was found once."""
    shape = SHAPES[name]
    table = coded(found, shape)
    is_once = name not in _OF_ROWS and sum(each.num_rows > 0 for each in found) <= 1
    return table if is_once else merge([table], shape)


def _counted(faults: pa.Array) -> pa.Table:
    counts = faults.value_counts()
    return pa.table({"reason": counts.field("values"), "count": counts.field("counts")})


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """Join small batches; large ones are divided."""
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
