"""A delay directory for brokers that keep nothing: the same files, in memory."""

from collections.abc import Iterable, Iterator

from mocketmq_compat.delay.delay_directory import Found, disk_bytes
from mocketmq_compat.delay.delayed_file import Entry


class MemoryDirectory:
    """As :class:`mocketmq_compat.delay.delay_directory.DelayDirectory`; nobody else can put files here."""

    def __init__(self) -> None:
        self._contents: dict[Entry, bytes] = {}

    def close(self) -> None:
        """Use it no more."""

    def write(self, entry: Entry, content: bytes) -> None:
        """Let the entry's file appear."""
        self._contents[entry] = content

    def sync(self, entries: Iterable[Entry]) -> None:
        """Memory is as durable as it gets."""

    def read(self, entry: Entry) -> bytes:
        """The content of the entry's file."""
        try:
            return self._contents[entry]
        except KeyError:
            raise FileNotFoundError(entry.name) from None

    def remove(self, entry: Entry) -> int:
        """Remove the entry's file; how many bytes of disk it would take."""
        return disk_bytes(len(self._contents.pop(entry, b"")))

    def remove_second(self, second: int) -> None:
        """There are no directories."""

    def scan(self, since_ns: int = 0) -> Iterator[Found | str]:  # noqa: ARG002 - as a directory's
        """Nothing but what this broker put here itself."""
        return iter(())
