"""A delay directory in memory, for brokers without a data directory."""

from collections.abc import Iterable, Iterator

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import Found, disk_bytes


class MemoryDirectory:
    """As :class:`~mocketmq_compat.delay.directories.delay_directory.DelayDirectory`; no foreign files."""

    def __init__(self) -> None:
        self._contents: dict[Entry, bytes] = {}

    def close(self) -> None:
        """Nothing to close."""

    def write(self, entry: Entry, content: bytes) -> None:
        """Keep the entry's content."""
        self._contents[entry] = content

    def sync(self, entries: Iterable[Entry]) -> None:
        """Nothing to sync."""

    def read(self, entry: Entry) -> bytes:
        """The entry's content. Raises FileNotFoundError."""
        try:
            return self._contents[entry]
        except KeyError:
            raise FileNotFoundError(entry.name) from None

    def remove(self, entry: Entry) -> int:
        """Remove the entry; the disk space in bytes that its file would take."""
        return disk_bytes(len(self._contents.pop(entry, b"")))

    def remove_second(self, second: int) -> None:
        """There are no directories."""

    def scan(self, since_ns: int = 0) -> Iterator[Found | str]:  # noqa: ARG002 - as a directory's
        """Nothing: there are no foreign files."""
        return iter(())
