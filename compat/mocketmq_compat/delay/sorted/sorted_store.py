"""The store of the scheme ``sorted``: all records in one RocksDB key space, sorted by due time and identity.

Due records are read from the front up to the first one that is not due. A record and the keys that find it
are written and removed together. RocksDB steps over each removed key until it has compacted them, so reading
begins at the least key that may exist.
"""

import logging
import threading
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.quarantine import QUARANTINE, note_reason, pieces_in
from mocketmq_compat.delay.sorted import keys
from mocketmq_compat.delay.sorted.rocks import Rocks
from mocketmq_compat.delay.store import BaseStore

log = logging.getLogger(__name__)

FOLDER: Final = "sorted"
DATABASE: Final = "db"
_AT_ONCE: Final = 1_024
"""Number of keys read in one step."""


class SortedStore(BaseStore):
    """A :class:`~mocketmq_compat.delay.store.DelayStore` over RocksDB. Opening raises OSError."""

    def __init__(self, root: Path, *, reads_only: bool = False) -> None:
        self.root = root
        self.damaged: Counter[str] = Counter()
        self.quarantined = pieces_in(root)
        self.recounts = 0
        self.repeats = 0
        if not reads_only:
            root.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()  # never held for long, because the event loop also acquires it
        self._rocks = Rocks(root / DATABASE, reads_only=reads_only)
        version = self._rocks.get(keys.VERSION_KEY)
        if version is None and not reads_only:
            self._rocks.write({keys.VERSION_KEY: keys.VERSION}, [])
        elif version not in (None, keys.VERSION):
            self.close()
            text = f"it has version {version!r} of the scheme sorted; readable: {keys.VERSION!r}"
            raise OSError(0, text, str(root))
        self.count, self.disk_bytes = keys.unpack_totals(self._rocks.get(keys.TOTALS_KEY))
        self._floor = keys.MESSAGE

    def close(self) -> None:
        with self._lock:
            self._rocks.close()

    @property
    def last_number(self) -> int:
        with self._lock:
            key = self._rocks.last_key(keys.NUMBER)
        return 0 if key is None else keys.entry_of_key(key).number

    @property
    def parts(self) -> int:
        """1 if there are pending records, otherwise 0."""
        return int(self.count > 0)

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        """Write the record and the keys that find it, unless it exists already."""
        size = len(content)
        with self._lock:
            if self.holds(entry):
                return
            self._rocks.write(
                {
                    keys.message_key(entry): content,
                    keys.number_key(entry): b"",
                    keys.hash_key(entry): keys.pack_size(size),
                    keys.TOTALS_KEY: keys.pack_totals(self.count + 1, self.disk_bytes + size),
                },
                [],
            )
            self.count += 1
            self.disk_bytes += size
            self._floor = min(self._floor, keys.message_key(entry))

    def sync(self, entries: Iterable[Entry]) -> None:  # noqa: ARG002 - syncs all writes
        """Sync RocksDB's log, without the lock."""
        self._rocks.sync()

    # Pending records

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first entries, reading from the front of the key space."""
        found: list[Entry] = []
        with self._lock:
            some = self._rocks.keys(self._floor, keys.MESSAGE, _AT_ONCE)
            if some:
                self._floor = some[0]
        while some:
            found += (entry for entry in map(keys.entry_of_key, some) if entry not in without)
            if len(found) >= limit:
                break
            some = self._following(some[-1])
        return found[:limit]

    def _following(self, key: bytes) -> list[bytes]:
        with self._lock:
            return self._rocks.keys(key + b"\0", key[:1], _AT_ONCE)

    def holds(self, entry: Entry) -> bool:
        with self._lock:
            return self._rocks.get(keys.hash_key(entry)) is not None

    def read(self, entry: Entry) -> bytes:
        with self._lock:
            content = self._rocks.get(keys.message_key(entry))
        if content is None:
            raise FileNotFoundError(entry.name)
        return content

    def with_number(self, number: int) -> list[Entry]:
        return self._with(keys.prefix(keys.NUMBER, number))

    def with_key(self, key_hash: int) -> list[Entry]:
        """Return the entries with this key hash, by the keys ``k``."""
        return self._with(keys.prefix(keys.KEY, key_hash))

    def _with(self, prefix: bytes) -> list[Entry]:
        found: list[Entry] = []
        begin = prefix
        while True:
            with self._lock:
                some = self._rocks.keys(begin, prefix, _AT_ONCE)
            found += map(keys.entry_of_key, some)
            if len(some) < _AT_ONCE:
                return found
            begin = some[-1] + b"\0"

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        found: list[Entry] = []
        with self._lock:
            some = self._rocks.keys(keys.prefix(keys.NUMBER, after + 1), keys.NUMBER, min(limit, _AT_ONCE))
        while some and len(found) < limit:
            found += map(keys.entry_of_key, some)
            some = self._following(some[-1])
        return found[:limit]

    def all(self) -> Iterator[Entry]:
        """Yield every record, in order of delivery."""
        with self._lock:
            some = self._rocks.keys(self._floor, keys.MESSAGE, _AT_ONCE)
        while some:
            yield from map(keys.entry_of_key, some)
            some = self._following(some[-1])

    # Removal

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Delete the records and the keys that find them, together."""
        with self._lock:
            gone: list[bytes] = []
            count, size = self.count, self.disk_bytes
            for entry in dict.fromkeys(entries):
                if (value := self._rocks.get(keys.hash_key(entry))) is not None:
                    gone += (keys.message_key(entry), keys.number_key(entry), keys.hash_key(entry))
                    count -= 1
                    size -= keys.unpack_size(value)
            if gone:
                self._rocks.write({keys.TOTALS_KEY: keys.pack_totals(count, size)}, gone)
                self.count, self.disk_bytes = count, size
        return ()

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the record to the quarantine, and delete it."""
        bad = self.root / QUARANTINE
        bad.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            (bad / entry.name).write_bytes(self.read(entry))
            self.quarantined += 1
        note_reason(bad / entry.name, reason)
        self.damaged[kind] += 1
        self.forget([entry])
