"""A RocksDB that small brokers can bear, and whose errors are the system's.

After a write that failed, RocksDB takes no other until it is opened again; here the next one does that.
``rocksdict`` writes a file where it opens a database, even to read. So readers open links to the others.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Final

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

WRITE_BUFFER_BYTES: Final = 8 << 20
CACHE_BYTES: Final = 8 << 20
OPEN_FILES: Final = 64
OPENING_BYTES: Final = 256 << 10
_OWN_FILE: Final = "rocksdict-config.json"
_TRIES: Final = 10
"""Of a reader, while a broker replaces files."""


class Rocks:
    """For one thread at a time. Every method may raise OSError."""

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        self._path = path
        self._links: TemporaryDirectory[str] | None = None
        self._database: Rdict | None = None
        self._has_failed = False
        if reads_only:
            self._open_links()
        else:
            self._open()

    def close(self) -> None:
        """Close it. May be called twice."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(Exception):  # after a failed write it complains, and is closed
                database.close()
        if self._links is not None:
            self._links.cleanup()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        with self._system_errors():
            value: bytes | None = self._open().get(key)
            return value

    def keys(self, start: bytes, kind: bytes, limit: int) -> list[bytes]:
        """Up to ``limit`` keys from ``start`` on that begin with ``kind``, in order."""
        with self._system_errors():
            found: list[bytes] = []
            for key in islice(self._open().keys(from_key=start), limit):
                if not (isinstance(key, bytes) and key.startswith(kind)):
                    break
                found.append(key)
            return found

    def last_key(self, kind: bytes) -> bytes | None:
        """The last key that begins with ``kind``."""
        with self._system_errors():
            key = next(self._open().keys(backwards=True, from_key=kind + b"\xff"), None)
            return key if isinstance(key, bytes) and key.startswith(kind) else None

    def write(self, puts: dict[bytes, bytes], deletes: list[bytes]) -> None:
        """Write all or nothing; durable after ``sync``."""
        batch = WriteBatch(raw_mode=True)
        for key, value in puts.items():
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        self._write(batch)

    def _write(self, batch: WriteBatch) -> None:
        if self._has_failed:
            self._require_room()  # else it could not be opened again, nor read
            self.close()
        database = self._open()
        self._has_failed = True
        with self._system_errors():
            database.write(batch)
        self._has_failed = False

    def _require_room(self) -> None:
        """Raise OSError if the disk has no room for what opening writes: a copy of the log, and a little."""
        size = sum(path.stat().st_size for path in self._path.glob("*.log"))
        with NamedTemporaryFile(dir=self._path.parent, prefix="room-") as file:
            file.write(bytes(size + OPENING_BYTES))
            file.flush()

    def sync(self) -> None:
        """Make all that was written durable."""
        if not self._has_failed:
            with self._system_errors():
                self._open().flush_wal(True)

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
        options.set_max_open_files(-1)  # all are opened now, and may be removed later
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
        """RocksDB has one class for all errors; their words say which it is."""
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
