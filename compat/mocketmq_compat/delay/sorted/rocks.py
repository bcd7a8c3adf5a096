"""RocksDB, set up for little memory and few threads, with errors turned into OSError.

After a failed write, RocksDB refuses all writes until it is reopened, so the next write reopens it.
``rocksdict`` writes a file in the folder of a database that it opens, even for reading, so readers open a
folder of links to the database's files.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Final

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from mocketmq.store.disk import sync_path

WRITE_BUFFER_BYTES: Final = 8 << 20
CACHE_BYTES: Final = 8 << 20
OPEN_FILES: Final = 512
"""Maximum number of files that RocksDB has open. Ten million pending messages have 40.

RocksDB divides the number over 64 parts, by a hash of the file. With 64 in total, a part had room for one
file, so reads by turns from two files of a part opened a file each time, which took 300 µs instead of 4.
"""
OPENING_BYTES: Final = 256 << 10
_OWN_FILE: Final = "rocksdict-config.json"
_TRIES: Final = 10
"""Maximum number of attempts to open the database for reading while a broker replaces its files."""


class Rocks:
    """A RocksDB database, for one thread at a time. Every method may raise OSError."""

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        self._path = path
        self._links: TemporaryDirectory[str] | None = None
        self._database: Rdict | None = None
        self._has_failed = False
        self._named: set[Path] = set()  # logs whose names in the folder are durable
        if reads_only:
            self._open_links()
        else:
            self._open()

    def close(self) -> None:
        """Close it. May be called twice."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(Exception):  # after a failed write, close() raises but still closes
                database.close()
        if self._links is not None:
            self._links.cleanup()

    def get(self, key: bytes) -> bytes | None:
        with self._system_errors():
            value: bytes | None = self._open().get(key)
            return value

    def keys(self, start: bytes, kind: bytes, limit: int) -> list[bytes]:
        """Return up to ``limit`` keys from ``start`` on that begin with ``kind``, in order."""
        with self._system_errors():
            found: list[bytes] = []
            each = self._open().iter()
            each.seek(start)
            while each.valid() and len(found) < limit:
                key: bytes = each.key()
                if not key.startswith(kind):
                    break
                found.append(key)
                each.next()
            each.status()  # raises the error that has ended the iteration, if any
            return found

    def last_key(self, kind: bytes) -> bytes | None:
        """Return the last key that begins with ``kind``, or None."""
        with self._system_errors():
            each = self._open().iter()
            each.seek_for_prev(kind + b"\xff")
            key: bytes | None = each.key() if each.valid() else None
            each.status()
            return key if key is not None and key.startswith(kind) else None

    def write(self, puts: dict[bytes, bytes], deletes: list[bytes]) -> None:
        """Apply all changes or none; durable after ``sync``."""
        batch = WriteBatch(raw_mode=True)
        for key, value in puts.items():
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        self._write(batch)

    def _write(self, batch: WriteBatch) -> None:
        if self._has_failed:
            self._require_room()  # a full disk would prevent the reopening, and then all reads
            self.close()
        database = self._open()
        self._has_failed = True
        with self._system_errors():
            database.write(batch)
        self._has_failed = False

    def _require_room(self) -> None:
        """Raise OSError unless the disk has room for opening again, which copies the log."""
        size = sum(path.stat().st_size for path in self._path.glob("*.log"))
        with NamedTemporaryFile(dir=self._path.parent, prefix="room-") as file:
            file.write(bytes(size + OPENING_BYTES))
            file.flush()

    def sync(self) -> None:
        """Make all writes so far durable. May run while another thread uses the database.

        Syncs the log's files, because RocksDB itself syncs only on the thread that may use the database, and
        after a failed write not at all.
        """
        logs = {*self._path.glob("*.log")}
        folder = () if logs <= self._named else (self._path,)
        for path in (*logs, *folder):
            with suppress(FileNotFoundError):  # RocksDB has synced its writes elsewhere, and removed it
                sync_path(path)
        self._named = logs

    def _open(self) -> Rdict:
        if self._database is None:
            options = _options()
            options.create_if_missing(True)
            options.set_max_open_files(OPEN_FILES)
            with self._system_errors():
                self._database = Rdict(str(self._path), options)
            self._has_failed = False
        return self._database

    def _open_links(self) -> None:
        options = _options()
        options.set_max_open_files(-1)  # open all files now, because the links may be removed later
        for left in reversed(range(_TRIES)):
            self._links = TemporaryDirectory(prefix="mocketmq-")
            try:
                with self._system_errors():
                    for path in self._path.resolve().iterdir():
                        if path.name != _OWN_FILE:
                            Path(self._links.name, path.name).symlink_to(path)
                    self._database = Rdict(self._links.name, options, access_type=AccessType.read_only())
                return
            except OSError:
                self._links.cleanup()
                if not left:
                    raise

    @contextmanager
    def _system_errors(self) -> Iterator[None]:
        """Turn RocksDB's errors into OSError by their texts, because RocksDB has a single error class."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            text = str(error)
            number = errno.ENOSPC if "No space left" in text else errno.EIO
            raise OSError(number, text, str(self._path)) from error


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_keep_log_file_num(2)
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(CACHE_BYTES))
    options.set_block_based_table_factory(tables)
    return options
