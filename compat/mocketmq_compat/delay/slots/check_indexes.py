"""Check the indexes of a ``slots`` folder, which a broker may be using, against its data.

The broker writes a record before its item, and removes an index before its data. The check reads the data
first, so an item whose record was written after that is not damage.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq_compat.delay.delayed_file import parse_second
from mocketmq_compat.delay.inspection import FolderInspector, FolderProblem
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, SlotDamage
from mocketmq_compat.delay.slots.hour_index import index_name
from mocketmq_compat.delay.slots.index_file import HOUR_MS, DamagedIndexError, IndexTotals

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
    offsets: dict[int, list[int]] = {}  # by hour: the number of records, and the sum of their offsets
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
        good = {(count, total), (count - 1, total - last)}  # the last item may still be missing
        # Check a second time on failure, because a broker may have been in the middle of a change.
        if (
            _reason(root, hour, damages, good)
            and _has_waiting(data, hour)
            and (reason := _reason(root, hour, damages, good))
        ):
            yield FolderProblem(index_name(hour), "index", f"{reason}; the broker rebuilds it from the data")


def _reason(root: Path, hour: int, left_out: list[range], good: set[tuple[int, int]]) -> str | None:
    """Say what is wrong with an index, given the possible numbers of records and sums of offsets; or None."""
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
