"""The table of delay schemes for absolute due times, by their names in the setting ``timed_scheme``.

To add a scheme, write a :class:`~mocketmq_compat.delay.store.DelayStore` and a module that reads its folder
without a broker. Then add a row to ``SCHEMES``, and the scheme's name to ``settings.TimedSchemeName``.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from mocketmq.errors import SettingError, StoreUnavailableError
from mocketmq.schedule.scheme import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings, TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import BLOCK_BYTES
from mocketmq_compat.delay.inspection import FolderInspector, FolderProblem, InspectionProgress, KeptMessage
from mocketmq_compat.delay.memory_store import MemoryStore
from mocketmq_compat.delay.store import DelayStore
from mocketmq_compat.delay.stored_scheme import StoredScheme


class Scheme(NamedTuple):
    """A delay scheme: its folder in the data directory, and its code below this package, imported on use.

    A method that reads or opens a folder may raise OSError.
    """

    folder: str
    store: str
    reading: str
    inspector: str = "inspection:FolderInspector"
    engine: str = "stored_scheme:StoredScheme"
    block_bytes: int = 1  # disk space of a message is a multiple of this

    def open_store(self, root: Path) -> DelayStore:
        """Open a folder that no broker uses, creating it if it is missing.

        Raises StoreUnavailableError if the scheme needs an extra of the package that is not installed.
        """
        store: DelayStore = _code(self.store)(root)
        return store

    def holds_messages(self, root: Path) -> bool:
        """Return whether the folder may have pending messages. Must be cheap; may return false positives."""
        return bool(_code(f"{self.reading}:holds_messages")(root))

    def pending_entries(self, root: Path) -> Iterator[Entry]:
        """Yield the entry of each pending message, in any order. Reads no contents, and changes nothing."""
        entries: Iterator[Entry] = _code(f"{self.reading}:pending_entries")(root)
        return entries

    def read_messages(
        self, root: Path, progress: InspectionProgress
    ) -> Iterator[KeptMessage | FolderProblem]:
        """Yield each pending or unreadable message in the folder, in any order. Changes nothing.

        Each ``file`` is the name of the message's entry, or ends with ``/`` and that name.
        """
        messages: Iterator[KeptMessage | FolderProblem] = _code(f"{self.reading}:read_messages")(
            root, progress
        )
        return messages

    def inspect(self, root: Path, progress: InspectionProgress) -> FolderInspector:
        """Return an inspector of the folder."""
        inspector: FolderInspector = _code(self.inspector)(self.read_messages, root, progress)
        return inspector


DEFAULT: Final[TimedSchemeName] = "directories"
SCHEMES: Final[Mapping[TimedSchemeName, Scheme]] = {
    "directories": Scheme(
        folder="delay",
        store="directories.directory_store:DirectoryStore",
        reading="directories.delay_inspection",
        inspector="directories.delay_inspection:DirectoryInspector",
        block_bytes=BLOCK_BYTES,
    ),
    "wheel": Scheme(folder="wheel", store="wheel.wheel_store:WheelStore", reading="wheel.reading"),
    "slots": Scheme(
        folder="slots",
        store="slots.slot_store:SlotStore",
        reading="slots.reading",
        inspector="slots.reading:SlotInspector",
        engine="slots.slot_store:Slots",
    ),
    "sorted": Scheme(folder="sorted", store="sorted.reading:sorted_store", reading="sorted.reading"),
}


def _code(name: str) -> Callable[..., Any]:
    """Import the object named as ``module:name``; the module is in this package."""
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), attribute)
    return found


async def open_timed_scheme(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Open the scheme named in the settings, and load its pending messages.

    Raises SettingError when another scheme holds messages in the data directory, or a StoreError.
    """
    chosen = settings.timed_scheme
    if settings.start_deliver_time == "dongwo" and chosen != DEFAULT:
        raise SettingError(
            "timed_scheme", chosen, f"{DEFAULT}, the only scheme for start_deliver_time dongwo"
        )
    if settings.data != MEMORY:
        if sys.platform == "win32" and chosen != DEFAULT:
            # The other schemes remove open files, or need pread() or symbolic links.
            raise SettingError("timed_scheme", chosen, f"{DEFAULT} on Windows, or any with data {MEMORY}")
        data = settings.data
        for name in holding_messages(Path(data)):
            if name != chosen:
                takes_over = f"mocketmq delayed import {data} --data {data} --timed-scheme {chosen}"
                raise SettingError(
                    "timed_scheme",
                    chosen,
                    f"{name}, whose messages are still in {data}; move them with: {takes_over}",
                )
    scheme = await _over_its_store(SCHEMES[chosen], settings, context)
    try:
        await scheme.load()
    except BaseException:
        await scheme.close()
        raise
    return scheme


async def _over_its_store(row: Scheme, settings: Settings, context: SchemeContext) -> StoredScheme:
    root = Path(settings.data) / row.folder
    try:
        if settings.data == MEMORY:
            store: DelayStore = MemoryStore(row.block_bytes)
        else:
            store = await asyncio.to_thread(row.open_store, root)
    except OSError as error:
        raise StoreUnavailableError(
            f"{error.filename or root} cannot be used for delayed messages: {error.strerror}"
        ) from error
    if settings.start_deliver_time == "dongwo":
        from mocketmq_compat.delay.directories.dongwo import Dongwo, Scans  # noqa: PLC0415 - only if it is used

        return Dongwo("dongwo", context, settings, store, Scans(context.started_us))
    engine: StoredScheme = _code(row.engine)(settings.timed_scheme, context, settings, store)
    return engine


def holding_messages(data: Path) -> list[str]:
    """Name the schemes with messages in this data directory. Raises StoreUnavailableError."""
    try:
        return [
            name
            for name, row in SCHEMES.items()
            if (data / row.folder).is_dir() and row.holds_messages(data / row.folder)
        ]
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or data} cannot be read: {error.strerror}") from error
