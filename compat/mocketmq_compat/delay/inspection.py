"""Inspection of a delay scheme's folder, which a broker may be using: list, find and check its messages."""

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.message.message_id import Identity, key_hash, log_offset_of, offset_message_id
from mocketmq_compat.delay.delayed_file import DelayedFile, Entry, parse_name
from mocketmq_compat.delay.known_parts import KNOWN
from mocketmq_compat.delay.quarantine import QUARANTINE, REASON

InspectionProgress = Callable[[str, int, int | None], None]
"""Called with the step, the number of completed files or messages, and the total if known."""

UNFINISHED: Final = "unfinished"
"""Kind of the problem with an incomplete record, which is being written, or was left by a kill."""


class FolderProblem(NamedTuple):
    """A problem: its file, its kind as one word, and a description."""

    file: str
    kind: str
    reason: str


class KeptMessage(NamedTuple):
    """A pending message, and the printable name of its file."""

    file: str
    message: DelayedFile

    @property
    def entry(self) -> Entry:
        """The entry in its header."""
        return self.message.header.entry

    def has_id(self, wanted: str) -> bool:
        """Return whether this is the message's unique key or offset message id."""
        header = self.message.header
        return wanted == header.unique_key or (
            wanted.upper() == offset_message_id(header.store_host, header.number)
        )


class Page(NamedTuple):
    """The first messages in order of due time, and unreadable files among them."""

    messages: list[KeptMessage]
    problems: list[FolderProblem]


class Inspection(NamedTuple):
    """The result of a check. Instants in emulated milliseconds, sizes in bytes of content."""

    files: int
    messages: int  # number of intact messages
    bytes: int  # size of all files
    first_due_ms: int | None
    last_due_ms: int | None
    topics: dict[str, int]  # messages by topic
    problems: list[FolderProblem]
    quarantined: list[FolderProblem]
    temporary: int  # number of incomplete records: being written, or left by a kill until the next start

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.problems and not self.quarantined


Reader = Callable[[Path, InspectionProgress], Iterator[KeptMessage | FolderProblem]]
"""Yields each pending or unreadable message in a folder, in any order; changes nothing."""


class FolderInspector:
    """Inspects a scheme's folder, which a broker may be using, by reading all of its messages.

    Changes nothing. A message that disappears in the meantime was delivered, and is not counted. Every method
    may raise OSError.
    """

    def __init__(self, read: Reader, root: Path, progress: InspectionProgress) -> None:
        self._root = root
        self._progress = progress
        self._messages = partial(read, root, progress)

    def first_messages(self, limit: int, *, topic: str | None = None, after: Entry | None = None) -> Page:
        """Return the first ``limit`` messages after ``after``, for this topic or for any."""
        problems: list[FolderProblem] = []

        def wanted() -> Iterator[KeptMessage]:
            for each in self._messages():
                if isinstance(each, KeptMessage):
                    if topic in (None, each.message.header.topic) and (after is None or each.entry > after):
                        yield each
                elif each.kind != UNFINISHED:
                    problems.append(each)

        return Page(heapq.nsmallest(limit, wanted(), key=lambda each: each.entry), problems)

    def find_messages(self, wanted: str) -> list[KeptMessage | FolderProblem]:
        """Find messages by unique key, offset message id, or file name.

        A damaged message is found by its file name, or by the number and key hash in that name.
        """
        number, digest = log_offset_of(wanted), key_hash(wanted)

        def is_found(each: KeptMessage | FolderProblem) -> bool:
            name = each.file.rpartition("/")[2]
            if wanted in (each.file, name):
                return True
            if isinstance(each, KeptMessage):
                return each.has_id(wanted)
            entry = parse_name(name)
            return entry is not None and (entry.number == number or entry.key_hash == digest)

        return [each for each in self._messages() if is_found(each)]

    def verify(self) -> Inspection:
        """Check every part of the folder, and that it has no message twice."""
        problems: list[FolderProblem] = []
        seen: dict[Identity, str] = {}
        topics: Counter[str] = Counter()
        dues_ms: list[int] = []
        unfinished = 0
        for each in self._messages():
            if isinstance(each, KeptMessage):
                first = seen.setdefault(each.entry.identity, each.file)
                if first != each.file:
                    problems.append(FolderProblem(each.file, "duplicate", f"{first} is the same message"))
                    continue
                topics[each.message.header.topic] += 1
                dues_ms.append(each.entry.due_ms)
            elif each.kind == UNFINISHED:
                unfinished += 1
            else:
                problems.append(each)
        problems += self._check()
        sizes = [*_sizes(self._root)]
        return Inspection(
            len(sizes),
            len(dues_ms),
            sum(sizes),
            min(dues_ms, default=None),
            max(dues_ms, default=None),
            dict(sorted(topics.items())),
            sorted(problems),
            sorted(quarantined(self._root)) if (self._root / QUARANTINE).is_dir() else [],
            unfinished,
        )

    def _check(self) -> Iterable[FolderProblem]:
        """Check the parts that are not needed to read messages."""
        return ()


def _sizes(root: Path) -> Iterator[int]:
    """Yield the size in bytes of each file with messages or their index."""
    for folder, folders, names in os.walk(root):
        if QUARANTINE in folders:
            folders.remove(QUARANTINE)
        for name in names:
            if name.startswith(KNOWN):
                continue
            with suppress(FileNotFoundError):
                yield Path(folder, name).lstat().st_size


def quarantined(root: Path) -> Iterator[FolderProblem]:
    """Yield the contents of the quarantine below a scheme's folder. Raises OSError."""
    directory = root / QUARANTINE
    for name in os.listdir(directory):  # noqa: PTH208 - also names that are not Unicode
        if not name.endswith(REASON):
            reason = "no reason was recorded"
            with suppress(OSError):
                reason = (directory / f"{name}{REASON}").read_text("utf-8", "replace").strip()
            yield FolderProblem(readable(f"{QUARANTINE}/{name}"), "quarantined", reason)


def readable(name: str) -> str:
    """Make a name printable: bytes that are not Unicode become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
