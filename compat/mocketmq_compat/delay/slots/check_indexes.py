"""Compare the indexes of a folder, which a broker may be using, with its data.

A record is written before its item, and an index is removed before the data. So the data is read first, and
what it lacks of an index is no damage of that.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq_compat.delay.delayed_file import parse_second
from mocketmq_compat.delay.inspection import FolderInspector, Trouble
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, SlotDamage
from mocketmq_compat.delay.slots.hour_index import index_name
from mocketmq_compat.delay.slots.index_file import HOUR_MS, DamagedIndexError, IndexTotals

_HOURS: Final = DAY_MS // HOUR_MS


class SlotInspector(FolderInspector):
    """Compares the indexes with the data, too."""

    def _check(self) -> Iterator[Trouble]:
        return check_indexes(self._root)


def check_indexes(root: Path) -> Iterator[Trouble]:
    """Each index that does not lead to every record that waits. Raises OSError."""
    data, indexes = _numbers(root / "data"), _numbers(root / "index")
    for day in sorted(data):
        with suppress(FileNotFoundError), (root / "data" / str(day)).open("rb", buffering=0) as file:
            yield from _check_day(root, file.fileno())
    for hour in sorted(indexes):
        if hour // _HOURS not in data:
            with suppress(FileNotFoundError):
                totals = _totals(root, hour, [])
                if totals is not None and totals.waiting:
                    reason = f"{index_name(hour)} names {totals.waiting} messages in it that wait"
                    yield Trouble(f"data/{hour // _HOURS}", "missing", reason)


def _check_day(root: Path, data: int) -> Iterator[Trouble]:
    offsets: dict[int, list[int]] = {}  # of each hour: how many records, and the sum of their offsets
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
        good = {(count, total), (count - 1, total - last)}  # an item may be just being written
        # Looked at twice, and only if it is needed: a broker may have been in the middle of a change.
        if (
            _reason(root, hour, damages, good)
            and _has_waiting(data, hour)
            and (reason := _reason(root, hour, damages, good))
        ):
            yield Trouble(index_name(hour), "index", f"{reason}; the broker makes it again from the data")


def _reason(root: Path, hour: int, left_out: list[range], good: set[tuple[int, int]]) -> str | None:
    """What is wrong with an index that should have one of these numbers of records and sums of offsets."""
    try:
        totals = _totals(root, hour, left_out)
    except FileNotFoundError:
        return "it is missing"
    except DamagedIndexError:
        totals = None
    if totals is None:
        return "it has changed"
    return None if (totals.items, totals.offsets) in good else "it does not name all records of the data"


def _totals(root: Path, hour: int, left_out: list[range]) -> IndexTotals | None:
    """What an index names, but for records in these ranges; None if it is damaged."""
    with (root / index_name(hour)).open("rb", buffering=0) as file:
        return index_file.check(
            file.fileno(), hour, lambda offset: not any(offset in each for each in left_out)
        )


def _has_waiting(data: int, hour: int) -> bool:
    """Whether a record of this hour waits still: else a broker may have removed the index."""
    return any(
        not isinstance(part, SlotDamage) and not part.is_done and part.entry.due_ms // HOUR_MS == hour
        for part in data_file.records(data)
    )


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {number for path in folder.iterdir() if (number := parse_second(path.name)) is not None}
