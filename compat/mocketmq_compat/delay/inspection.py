"""Inspect the folder of a delay scheme, which a broker may be using: list, find and check its messages."""

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
from mocketmq_compat.delay.directories.delay_directory import QUARANTINE, REASON

InspectionProgress = Callable[[str, int, int | None], None]
"""Called with the step, the number of files or messages done, and the total, if known."""

UNFINISHED: Final = "unfinished"
"""The kind of trouble of what is still being written, or was left by a kill: its sender got no answer."""


class Trouble(NamedTuple):
    """A problem: the file, a word for the kind, and a sentence."""

    file: str
    kind: str
    reason: str


class KeptMessage(NamedTuple):
    """A message that will be delivered, and the file that it is in, for people."""

    file: str
    message: DelayedFile

    @property
    def entry(self) -> Entry:
        """The entry of its header."""
        return self.message.header.entry

    def has_id(self, wanted: str) -> bool:
        """Whether this is the message's unique key or offset message id."""
        header = self.message.header
        return wanted == header.unique_key or (
            wanted.upper() == offset_message_id(header.store_host, header.number)
        )


class Page(NamedTuple):
    """The first messages in order of due time, and what could not be read on the way to them."""

    messages: list[KeptMessage]
    troubles: list[Trouble]


class Inspection(NamedTuple):
    """The result of a check. Instants in emulated milliseconds, sizes in bytes of content."""

    files: int
    messages: int  # without a problem
    bytes: int  # of all files
    first_due_ms: int | None
    last_due_ms: int | None
    topics: dict[str, int]  # messages by topic
    troubles: list[Trouble]
    quarantined: list[Trouble]
    temporary: int  # parts being written, or left by a kill, which the next start removes

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.troubles and not self.quarantined


Reader = Callable[[Path, InspectionProgress], Iterator[KeptMessage | Trouble]]
"""Reads each message that waits in a folder, in any order, and what cannot be read; changes nothing."""


class FolderInspector:
    """Looks into a scheme's folder, which a broker may be using, by reading all of its messages.

    Nothing is changed. What disappears meanwhile was delivered, and is not counted. Every method may raise
    OSError.
    """

    def __init__(self, read: Reader, root: Path, progress: InspectionProgress) -> None:
        self._root = root
        self._progress = progress
        self._messages = partial(read, root, progress)

    def first(self, limit: int, *, topic: str | None = None, after: Entry | None = None) -> Page:
        """The first ``limit`` messages behind ``after`` for this topic, or for any."""
        troubles: list[Trouble] = []

        def wanted() -> Iterator[KeptMessage]:
            for each in self._messages():
                if isinstance(each, KeptMessage):
                    if topic in (None, each.message.header.topic) and (after is None or each.entry > after):
                        yield each
                elif each.kind != UNFINISHED:
                    troubles.append(each)

        return Page(heapq.nsmallest(limit, wanted(), key=lambda each: each.entry), troubles)

    def find(self, wanted: str) -> list[KeptMessage | Trouble]:
        """The messages with this unique key or offset message id, or in the file of this name.

        A damaged one is found by its name, and by the number and key hash in it.
        """
        number, digest = log_offset_of(wanted), key_hash(wanted)

        def is_found(each: KeptMessage | Trouble) -> bool:
            name = each.file.rpartition("/")[2]
            if wanted in (each.file, name):
                return True
            if isinstance(each, KeptMessage):
                return each.has_id(wanted)
            entry = parse_name(name)
            return entry is not None and (entry.number == number or entry.key_hash == digest)

        return [each for each in self._messages() if is_found(each)]

    def verify(self) -> Inspection:
        """Check every part of the folder, and whether it holds a message twice."""
        troubles: list[Trouble] = []
        seen: dict[Identity, str] = {}
        topics: Counter[str] = Counter()
        dues_ms: list[int] = []
        unfinished = 0
        for each in self._messages():
            if isinstance(each, KeptMessage):
                first = seen.setdefault(each.entry.identity, each.file)
                if first != each.file:
                    troubles.append(Trouble(each.file, "duplicate", f"{first} is the same message"))
                    continue
                topics[each.message.header.topic] += 1
                dues_ms.append(each.entry.due_ms)
            elif each.kind == UNFINISHED:
                unfinished += 1
            else:
                troubles.append(each)
        troubles += self._check()
        sizes = [*_sizes(self._root)]
        return Inspection(
            len(sizes),
            len(dues_ms),
            sum(sizes),
            min(dues_ms, default=None),
            max(dues_ms, default=None),
            dict(sorted(topics.items())),
            sorted(troubles),
            sorted(quarantined(self._root)) if (self._root / QUARANTINE).is_dir() else [],
            unfinished,
        )

    def _check(self) -> Iterable[Trouble]:
        """What is wrong with parts that are not needed to read messages."""
        return ()


def _sizes(root: Path) -> Iterator[int]:
    """The size in bytes of each file, without the quarantine."""
    for folder, folders, names in os.walk(root):
        if QUARANTINE in folders:
            folders.remove(QUARANTINE)
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(folder, name).lstat().st_size


def quarantined(root: Path) -> Iterator[Trouble]:
    """What lies in the quarantine below a scheme's folder. Raises OSError."""
    directory = root / QUARANTINE
    for name in os.listdir(directory):  # noqa: PTH208 - also names that are not Unicode
        if not name.endswith(REASON):
            reason = "no reason was noted"
            with suppress(OSError):
                reason = (directory / f"{name}{REASON}").read_text("utf-8", "replace").strip()
            yield Trouble(readable(f"{QUARANTINE}/{name}"), "quarantined", reason)


def readable(name: str) -> str:
    """A name with bytes that are not Unicode written as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
