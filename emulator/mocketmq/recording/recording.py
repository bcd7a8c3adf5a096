"""The file of a recording: JSON lines, first a header, then a message on each line in order of sending.

A message has the fields of a seed's message (docs/seeds.md), with ``sent_at``, and with ``origin``, the
position from which it was read. All lines end with a line feed, so a line without a line feed was cut off
when its writer was killed. A writer locks the file.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.instant import format_instant, parse_instant_ms
from mocketmq.store.lock import lock_file

VERSION: Final = 1
_LONGEST_LINE: Final = 256 << 20
_BLOCK: Final = 1 << 16
_LOCKED_BYTE: Final = 2**31 - 2
"""Offset of the byte locked on Windows, far beyond the content, because others cannot read that byte."""


class RecordingError(EmulatorError):
    """A recording cannot be read or written."""


class Origin(msgspec.Struct, frozen=True):
    """The position from which a message was read, in its real topic or in a delay queue."""

    broker: str
    topic: str
    queue_id: int
    offset: int


class RecordedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, and when it was sent. At most one of the delays is set; delays count from ``sent_at``.

    ``queue_id`` numbers the queues of all brokers together; ``origin`` has the queue's number on its broker.
    ``queues`` is the topic's number of queues, if the header lacks it. ``compression`` is set if the body is
    still compressed.
    """

    sent_at: str
    topic: str
    queue_id: int | None = None
    queues: int | None = None
    body: str | None = None
    body_base64: bytes | None = None
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: dict[str, str] = {}
    delay_level: int = 0
    delay_ms: int | None = None
    deliver_at: str | None = None
    message_id: str | None = None
    born_ms: int | None = None
    flag: int = 0
    compression: str | None = None
    origin: Origin | None = None

    @property
    def sent_ms(self) -> int:
        """``sent_at`` in epoch milliseconds. Raises InvalidArgumentError."""
        return parse_instant_ms(self.sent_at, "sent_at")


class RecordingHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: the version of the format, the source, its topics' queues, and the masks.

    A run that continues the recording uses ``key_check`` to verify that it hashes with the same key, and
    ``from_ms`` or ``from_offset`` as the begin of the recording. With ``requests``, the lines are events of
    requests instead of messages (``mocketmq.recording.requests``).
    """

    recording: int
    source: str
    queues: dict[str, int]
    masks: list[str] = []
    key_check: str = ""
    requests: bool = False
    from_ms: int | None = None
    from_offset: int | None = None


class Line(NamedTuple):
    """A message, and the number of its line."""

    number: int
    message: RecordedMessage


_header: Final = msgspec.json.Decoder(RecordingHeader)
_message: Final = msgspec.json.Decoder(RecordedMessage)
_encode: Final = msgspec.json.Encoder().encode


def sent_text(sent_us: int) -> str:
    """Format the time of sending as in a recording, in milliseconds."""
    return format_instant(sent_us // US_PER_MS * US_PER_MS)


class RecordingReader:
    """Reads a recording line by line. Raises RecordingError, with the number of the line.

    With ``continues``, the reader locks the file, so that :meth:`RecordingWriter.behind` can continue it.
    """

    def __init__(self, path: Path, *, continues: bool = False) -> None:
        self.path = path
        self._is_released = False
        try:
            self._file: BinaryIO = path.open("r+b" if continues else "rb")
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
        self.whole = 0
        """Number of bytes of the lines read so far, which were whole."""
        try:
            if continues:
                _lock(self._file, path)
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """Number of bytes of the file."""
        return os.fstat(self._file.fileno()).st_size

    def __iter__(self) -> Iterator[Line]:
        """Yield all messages. Leaves out a last line without a line feed."""
        for number, data in self.lines():
            try:
                message = _message.decode(data)
                _ = message.sent_ms
            except (msgspec.DecodeError, RecursionError, InvalidArgumentError) as error:
                raise RecordingError(f"{self.path}, line {number}: {error}") from None
            if (message.body is None) == (message.body_base64 is None):
                allowed = "exactly one of body and body_base64"
                raise RecordingError(f"{self.path}, line {number}: the body is wrong; allowed: {allowed}")
            yield Line(number, message)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield all lines after the header with their numbers. Leaves out a last line without a line feed."""
        number = 1
        while data := self._line():
            number += 1
            yield number, data

    @property
    def is_cut(self) -> bool:
        """Whether the file has more bytes after the lines read, because its last line was cut off."""
        return self.size > self.whole

    def end_of_lines(self) -> int:
        """Number of bytes up to the end of the last whole line."""
        end = self.size
        while end > self.whole:
            start = max(end - _BLOCK, self.whole)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return self.whole

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def release(self) -> BinaryIO:
        """Return the open, locked file. The caller must close it."""
        self._is_released = True
        return self._file

    def close(self) -> None:
        """Close the file, unless it was released."""
        if not self._is_released:
            self._file.close()

    def _line(self) -> bytes:
        data = self._file.readline(_LONGEST_LINE)
        if not data.endswith(b"\n"):
            if len(data) == _LONGEST_LINE:
                raise RecordingError(f"{self.path}: a line is longer than {_LONGEST_LINE} bytes")
            return b""
        self.whole += len(data)
        return data

    def _read_header(self) -> RecordingHeader:
        try:
            header = _header.decode(self._line())
        except (msgspec.DecodeError, RecursionError):
            raise RecordingError(
                f"{self.path} is not a recording: its first line is not a recording header"
            ) from None
        if header.recording > VERSION:
            raise RecordingError(
                f"{self.path} has version {header.recording} of the format; allowed: up to {VERSION}."
                " Use a newer mocketmq"
            )
        return header


class RecordingWriter:
    """Appends to a recording. Raises RecordingError."""

    def __init__(self, path: Path, file: BinaryIO, header: RecordingHeader | None = None) -> None:
        """Write to a locked file, beginning with the header if it is given."""
        self._path = path
        self._file = file
        if header is not None:
            self._append([_encode(header)])

    @classmethod
    def create(cls, path: Path, header: RecordingHeader) -> Self:
        """Create the file, which must not exist. Only its owner can read it, because it contains messages."""
        try:
            file = open(path, "xb", opener=_private)  # noqa: SIM115 - a Path takes no opener
        except FileExistsError:
            raise RecordingError(f"{path} exists: give another name, or continue it with --resume") from None
        except OSError as error:
            raise _unwritable(path, error) from None
        _lock(file, path)
        return cls(path, file, header)

    @classmethod
    def behind(cls, reader: RecordingReader, end: int) -> Self:
        """Continue a recording after its first ``end`` bytes, in the reader's file."""
        file = reader.release()
        try:
            file.truncate(end)
            file.seek(end)
        except OSError as error:
            file.close()
            raise _unwritable(reader.path, error) from None
        return cls(reader.path, file)

    @classmethod
    def reopen(cls, path: Path, header: RecordingHeader) -> Self:
        """Continue a recording after its last whole line. The file must have this header."""
        reader = RecordingReader(path, continues=True)
        try:
            if reader.header != header:
                raise RecordingError(
                    f"{path} is a recording of {reader.header.source} of another kind, or with other masks;"
                    " give another name"
                )
            return cls.behind(reader, reader.end_of_lines())
        finally:
            reader.close()

    def write(self, lines: Iterable[msgspec.Struct]) -> None:
        """Append messages or events, which are in the file on return."""
        self._append(map(_encode, lines))

    @property
    def size(self) -> int:
        """Number of bytes of the file."""
        return self._file.tell()

    def close(self) -> None:
        """Write the file to the disk, and close it."""
        try:
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise _unwritable(self._path, error) from None

    def _append(self, lines: Iterable[bytes]) -> None:
        try:
            self._file.write(b"".join(line + b"\n" for line in lines))
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lock(file: BinaryIO, path: Path) -> None:
    """Lock the file, or close it. Raises RecordingError."""
    try:
        lock_file(file.fileno(), _LOCKED_BYTE)
    except (BlockingIOError, PermissionError):
        file.close()
        raise RecordingError(f"{path} is being written by another process; give another name") from None
    except OSError as error:
        file.close()
        raise RecordingError(f"{path} cannot be locked: {error.strerror}") from None


def _unwritable(path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{path} cannot be written: {error.strerror}")
