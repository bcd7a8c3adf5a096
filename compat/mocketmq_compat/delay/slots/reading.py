"""Inspect the folder ``slots``, which a broker may be using: read its messages, and check its indexes.

Messages are read from the data alone. The broker writes a record before its item, and removes an index before
its data. The check of the indexes reads the data first, so an item whose record was written after that does
not count as damage. Nothing is changed.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, parse_second
from mocketmq_compat.delay.inspection import (
    UNFINISHED,
    FolderInspector,
    FolderProblem,
    InspectionProgress,
    KeptMessage,
    readable,
)
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.quarantine import QUARANTINE
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, PREFIX_BYTES, SlotDamage, SlotRecord
from mocketmq_compat.delay.slots.hour_index import index_name
from mocketmq_compat.delay.slots.index_file import (
    HEADER_BYTES,
    HOUR_MS,
    DamagedIndexError,
    IndexTotals,
    header,
)

_HOURS: Final = DAY_MS // HOUR_MS


class SlotInspector(FolderInspector):
    """Inspects the folder ``slots``, and also checks its indexes against its data."""

    def _check(self) -> Iterator[FolderProblem]:
        return check_indexes(self._root)


def check_indexes(root: Path) -> Iterator[FolderProblem]:
    """Yield each index that does not list every pending record. Raises OSError."""
    data, indexes = _numbers(root / "data"), _numbers(root / "index")
    for day in sorted(data):
        with suppress(FileNotFoundError), (root / "data" / str(day)).open("rb", buffering=0) as file:
            yield from _check_day(root, file.fileno())
    for hour in sorted(indexes):
        if hour // _HOURS not in data:
            with suppress(FileNotFoundError):
                totals = _totals(root, hour, [])
                if totals is not None and totals.waiting:
                    reason = f"it is missing; {index_name(hour)} lists {totals.waiting} pending messages"
                    yield FolderProblem(f"data/{hour // _HOURS}", "missing", reason)


def _check_day(root: Path, data: int) -> Iterator[FolderProblem]:
    offsets: dict[int, list[int]] = {}  # by hour: number of records, and sum of their offsets
    waiting: set[int] = set()
    damages: list[range] = []
    last = end = 0
    for part in data_file.records(data):
        end = part.offset + part.size
        if isinstance(part, SlotDamage):
            damages.append(range(part.offset, end))
            continue
        hour, last = part.entry.due_ms // HOUR_MS, part.offset
        found = offsets.setdefault(hour, [0, 0])
        found[0] += 1
        found[1] += last
        if not part.is_done:
            waiting.add(hour)
    damages.append(range(end, 1 << 63))
    for hour in sorted(waiting):
        count, total = offsets[hour]
        good = {(count, total), (count - 1, total - last)}  # the newest record's item may not be written yet
        # After a failed check, check again, because a broker may have been in the middle of a change.
        if (
            _reason(root, hour, damages, good)
            and _has_waiting(data, hour)
            and (reason := _reason(root, hour, damages, good))
        ):
            yield FolderProblem(index_name(hour), "index", f"{reason}; the broker rebuilds it from the data")


def _reason(root: Path, hour: int, left_out: list[range], good: set[tuple[int, int]]) -> str | None:
    """Describe what is wrong with an index, given the possible totals of its records; None if it is good."""
    try:
        totals = _totals(root, hour, left_out)
    except FileNotFoundError:
        return "it is missing"
    except DamagedIndexError:
        totals = None
    if totals is None:
        return "it is damaged"
    return None if (totals.items, totals.offsets) in good else "it does not list all records of the data"


def _totals(root: Path, hour: int, left_out: list[range]) -> IndexTotals | None:
    """Count the records outside of these ranges that an index lists; None if the index is damaged."""
    with (root / index_name(hour)).open("rb", buffering=0) as file:
        return index_file.check(
            file.fileno(), hour, lambda offset: not any(offset in each for each in left_out)
        )


def _has_waiting(data: int, hour: int) -> bool:
    """Return whether a record of this hour is still pending; otherwise the broker may remove the index."""
    return any(
        not isinstance(part, SlotDamage) and not part.is_done and part.entry.due_ms // HOUR_MS == hour
        for part in data_file.records(data)
    )


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {number for path in folder.iterdir() if (number := parse_second(path.name)) is not None}


def holds_messages(root: Path) -> bool:
    """Return whether any day has a record, pending or settled. Raises OSError."""
    return any(path.stat().st_size > HEADER_BYTES for path in _days(root))


def pending_entries(root: Path) -> Iterator[Entry]:
    """Yield the entry in the head of each pending record."""
    for path in _days(root):
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            for part in data_file.records(file.fileno()):
                if isinstance(part, SlotRecord) and not part.is_done:
                    yield part.entry


def read_messages(root: Path, progress: InspectionProgress) -> Iterator[KeptMessage | FolderProblem]:
    """Yield each pending record, and damaged parts. Raises OSError."""
    yield from _strays(root)
    done = 0
    for path in _days(root):
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            for each in _read(f"data/{path.name}", int(path.name), file.fileno()):
                progress("reading messages", done, None)
                done += 1
                yield each


def _read(name: str, day: int, fd: int) -> Iterator[KeptMessage | FolderProblem]:
    """Like ``read_messages``, for one day's data."""
    begin = os.pread(fd, HEADER_BYTES, 0)
    if begin != header("data", day):
        reason = "its header does not match this version and day"
        yield FolderProblem(name, "version" if begin.strip(b"\0") else UNFINISHED, reason)
        return
    for part in data_file.records(fd):
        if isinstance(part, SlotDamage):
            kind = UNFINISHED if data_file.is_begun(fd, part) else "damaged"
            yield FolderProblem(f"{name}:{part.offset}", kind, f"{part.size} bytes are not a record")
        elif not part.is_done:
            file = f"{name}/{part.entry.name}"
            try:
                content = os.pread(fd, part.size - PREFIX_BYTES, part.offset + PREFIX_BYTES)
                yield KeptMessage(file, message_in(part.entry, content))
            except DamagedFileError as error:
                yield FolderProblem(file, error.kind, str(error))


def _strays(root: Path) -> Iterator[FolderProblem]:
    own = ("data", "index", QUARANTINE)
    others = {path for path in root.iterdir() if path.name not in own and not path.name.startswith(KNOWN)}
    for folder in ("data", "index"):
        if (root / folder).is_dir():
            others |= {path for path in (root / folder).iterdir() if parse_second(path.name) is None}
    for path in sorted(others):
        kind = UNFINISHED if path.suffix == ".tmp" else "stray"
        yield FolderProblem(
            readable(str(path.relative_to(root))), kind, "it is not a file of the scheme slots"
        )


def _days(root: Path) -> list[Path]:
    if not (root / "data").is_dir():
        return []
    return sorted(path for path in (root / "data").iterdir() if parse_second(path.name) is not None)
