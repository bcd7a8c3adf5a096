"""Reads the pending and lost messages outside of a store's database as rows of a ledger."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import Identity
from mocketmq_compat.delay.delayed_file import Entry, FileHeader, parse_name
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_compat.delay.directories.delay_inspection import in_order, list_files
from mocketmq_compat.delay.inspection import FolderProblem, KeptMessage
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from mocketmq_report.progress import ProgressCallback

_NAME: Final = re.compile(r"[0-9]+-[0-9a-f]{16}-[0-9a-f]{16}\.msg")
"""Matches the name of a delayed message's file, which in quarantine is part of a longer name."""


class WaitingFile(NamedTuple):
    """A message in a file. If the file is damaged, only the fields in its name are known."""

    state: str  # pending or lost
    parked_offset: int
    key_hash: int
    due_us: int
    message_id: str
    scheme: str | None  # None for second directories, which ``directories`` and ``dongwo`` share
    topic: str = ""
    queue_id: int | None = None
    attempt: int | None = None
    size: int | None = None
    born_us: int | None = None
    stored_us: int | None = None

    @property
    def identity(self) -> Identity:
        """The message's number and key hash."""
        return self.parked_offset, self.key_hash


def waiting_files(data: Path, progress: ProgressCallback) -> list[WaitingFile]:
    """Return every message in the files of a data directory, once even if several files have it.

    Raises StoreUnavailableError for an unreadable file, because its message may be intact.
    """
    found: dict[Identity, WaitingFile] = {}
    try:
        if (data / FOLDER).is_dir():
            _add_files(found, data / FOLDER, progress)
        for name, place in SCHEMES.items():
            if name != DEFAULT and (data / place.folder).is_dir():
                for each in place.read_messages(data / place.folder, progress):
                    if isinstance(each, KeptMessage):
                        found.setdefault(each.entry.identity, _pending(each.message.header, name))
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or data} cannot be read: {error.strerror}") from error
    return list(found.values())


def _add_files(found: dict[Identity, WaitingFile], root: Path, progress: ProgressCallback) -> None:
    """Add the messages of second directories. Raises OSError, and the errors of ``waiting_files``."""
    problems: list[FolderProblem] = []
    listing = list_files(root, progress)
    for each in in_order(root, listing.places, progress):
        if isinstance(each, KeptMessage):
            found.setdefault(each.entry.identity, _pending(each.message.header, None))
        elif each.kind == "unreadable":
            raise StoreUnavailableError(f"{root / each.file}: {each.reason}")
        else:
            problems.append(each)
    for problem in (*problems, *listing.quarantined):
        entry = _entry(problem.file)
        if entry is not None:
            found.setdefault(entry.identity, _lost(entry))


def _pending(header: FileHeader, scheme: str | None) -> WaitingFile:
    return WaitingFile(
        "pending",
        header.number,
        header.entry.key_hash,
        header.entry.due_us,
        header.unique_key,
        scheme,
        header.topic,
        header.queue_id,
        header.reconsume_times + 1,
        header.size,
        header.born_us,
        header.stored_us,
    )


def _lost(entry: Entry) -> WaitingFile:
    message_id = f"{entry.number:016x}-{entry.key_hash:016x}"
    return WaitingFile("lost", *entry.identity, entry.due_us, message_id, None)


def _entry(path: str) -> Entry | None:
    """Parse the fields in a file's name; None for any other name."""
    named = _NAME.search(path)
    return parse_name(named[0]) if named else None
