"""Inspect the folder of a scheme by reading all of its messages."""

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from mocketmq.message.message_id import Identity, key_hash, log_offset_of
from mocketmq_compat.delay.delayed_file import Entry, parse_name
from mocketmq_compat.delay.directories.delay_directory import QUARANTINE
from mocketmq_compat.delay.directories.delay_inspection import quarantined
from mocketmq_compat.delay.scheme_kind import (
    UNFINISHED,
    Inspection,
    InspectionProgress,
    KeptMessage,
    Page,
    Trouble,
)


class FolderInspector:
    """As :class:`~mocketmq_compat.delay.scheme_kind.Inspector`, by a scheme's ``read_messages``.

    ``check`` finds what is wrong with parts that are not needed to read messages.
    """

    def __init__(
        self,
        read: Callable[[Path, InspectionProgress], Iterator[KeptMessage | Trouble]],
        root: Path,
        progress: InspectionProgress,
        check: Callable[[Path], Iterable[Trouble]] = lambda _: (),
    ) -> None:
        self._root = root
        self._found = partial(read, root, progress)
        self._check = check

    def first(self, limit: int, *, topic: str | None = None, after: Entry | None = None) -> Page:
        """Holds no more than ``limit`` messages in memory."""
        troubles: list[Trouble] = []

        def wanted() -> Iterator[KeptMessage]:
            for each in self._found():
                if isinstance(each, KeptMessage):
                    if topic in (None, each.message.header.topic) and (after is None or each.entry > after):
                        yield each
                elif each.kind != UNFINISHED:
                    troubles.append(each)

        return Page(heapq.nsmallest(limit, wanted(), key=lambda each: each.entry), troubles)

    def find(self, wanted: str) -> list[KeptMessage | Trouble]:
        """Reads all messages."""
        number, digest = log_offset_of(wanted), key_hash(wanted)

        def is_found(each: KeptMessage | Trouble) -> bool:
            name = each.file.rpartition("/")[2]
            if wanted in (each.file, name):
                return True
            if isinstance(each, KeptMessage):
                return each.has_id(wanted)
            entry = parse_name(name)
            return entry is not None and (entry.number == number or entry.key_hash == digest)

        return [each for each in self._found() if is_found(each)]

    def verify(self) -> Inspection:
        """Reads all messages."""
        troubles: list[Trouble] = []
        seen: dict[Identity, str] = {}
        topics: Counter[str] = Counter()
        dues_ms: list[int] = []
        unfinished = 0
        for each in self._found():
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
        troubles += self._check(self._root)
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


def _sizes(root: Path) -> Iterator[int]:
    """The size in bytes of each file, without the quarantine."""
    for folder, folders, names in os.walk(root):
        if QUARANTINE in folders:
            folders.remove(QUARANTINE)
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(folder, name).lstat().st_size
