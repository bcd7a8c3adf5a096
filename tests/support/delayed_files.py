"""Creates files of delayed messages without a broker."""

from pathlib import Path
from typing import Any, NamedTuple

from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import UNIQ_KEY
from mocketmq_compat.delay.delayed_file import Entry, FileHeader, encode

DUE_MS = 1_700_000_000_250
"""Default due time of a file."""


class Made(NamedTuple):
    """A file, and its expected content."""

    header: FileHeader
    body: bytes

    @property
    def entry(self) -> Entry:
        """The directory entry: name, due time and directory."""
        return self.header.entry

    @property
    def content(self) -> bytes:
        """Return the bytes of the file."""
        return encode(self.header, self.body)

    @property
    def place(self) -> str:
        """Return the path where the file belongs below a delay directory."""
        return f"{self.entry.second}/{self.entry.name}"

    def put(self, root: Path, place: str | None = None) -> Path:
        """Write the file below a delay directory, by default where it belongs."""
        path = root / (place or self.place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)
        return path


def made(
    key: str = "AB01", body: bytes = b"hello", *, due_ms: int = DUE_MS, number: int = 7, **changed: Any
) -> Made:
    """Make a file for a message to queue 2 of ``orders``; ``changed`` overrides fields of its header."""
    fields: dict[str, Any] = {
        "due_us": due_ms * US_PER_MS,
        "stored_us": (due_ms - 10_000) * US_PER_MS,
        "topic": "orders",
        "queue_id": 2,
        "unique_key": key,
        "born_us": (due_ms - 10_001) * US_PER_MS,
        "born_host": "127.0.0.1:5000",
        "store_host": "127.0.0.1:10911",
        "flag": 0,
        "sys_flag": 0,
        "reconsume_times": 0,
        "properties": {UNIQ_KEY: key},
    }
    header = FileHeader(number=number, size=len(body), **(fields | changed))
    return Made(header, body)
