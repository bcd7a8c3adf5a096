"""The file format of a pending delayed message: its name and its content. Does no I/O.

A file is in the directory named after the epoch second of its due time. Its name is
``<due>-<number>-<key>.msg``: the due time in epoch milliseconds; the message's place in the order of arrival,
16 hex digits; a hash of its unique key, 16 hex digits. Number and key hash together are the message's
identity. The content of the file is, in version 1::

    mocketmq-delayed 1 sha256 <64 hex digits>
    {"number":…,"due_us":…,"topic":"orders","queue_id":2,"properties":{…},…}
    <the body, as many bytes as the header's "size" says, to the end of the file>

The first line ends with the SHA-256 of everything after it, so standard tools can read and check a file::

    tail -n +2 FILE | sha256sum      sed -n 2p FILE | jq .      tail -n +3 FILE
"""

import errno
import hashlib
import re
from typing import Annotated, Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS, US_PER_S, whole_ms_us
from mocketmq.errors import EmulatorError
from mocketmq.message.message_id import Identity, key_hash

VERSION: Final = 1
MAGIC: Final = b"mocketmq-delayed "
_FIRST_LINE: Final = re.compile(rb"%s%d sha256 ([0-9a-f]{64})" % (MAGIC, VERSION))
_ANY_VERSION: Final = re.compile(rb"%s([0-9]{1,9})(?: .*)?" % MAGIC)
_NAME: Final = re.compile(r"(0|[1-9][0-9]{0,14})-([0-7][0-9a-f]{15})-([0-7][0-9a-f]{15})\.msg")
MS_PER_S: Final = US_PER_S // US_PER_MS
TRY_AGAIN: Final = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ENOSPC, errno.EDQUOT)
}
"""Error numbers caused by the system rather than by the file, so that a retry may succeed."""


class DamagedFileError(EmulatorError):
    """The file is not a delayed message, or was altered. ``kind`` names the damage in counters."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def unreadable(error: OSError) -> DamagedFileError:
    """Make the error for a file that cannot be read. Re-raises an error of the system."""
    if error.errno in TRY_AGAIN:
        raise error
    kind = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
    return DamagedFileError(kind, f"the file cannot be read: {error.strerror}")


class Entry(NamedTuple):
    """The values in a file's name. Entries sort by due time in milliseconds, then by arrival."""

    due_ms: int
    number: int
    key_hash: int

    @property
    def due_us(self) -> int:
        return self.due_ms * US_PER_MS

    @property
    def identity(self) -> Identity:
        """The message's identity, which does not include the due time."""
        return self.number, self.key_hash

    @property
    def second(self) -> int:
        """The epoch second that names its directory."""
        return self.due_ms // MS_PER_S

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.due_ms}-{self.number:016x}-{self.key_hash:016x}.msg"


Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number within the range of SQLite's integers."""


class FileHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The second line of a file. Instants in emulated microseconds, ``size`` in bytes of the body.

    Files by older versions have no ``door``.
    """

    number: Int64
    due_us: Int64
    stored_us: Int64
    topic: str
    queue_id: int
    unique_key: str
    born_us: Int64
    born_host: str
    store_host: str
    flag: Int64
    sys_flag: Int64
    reconsume_times: Int64
    size: int
    properties: dict[str, str]
    door: str | None = None

    @property
    def entry(self) -> Entry:
        return Entry(whole_ms_us(self.due_us) // US_PER_MS, self.number, key_hash(self.unique_key))


class DelayedFile(NamedTuple):
    """The content of a file."""

    header: FileHeader
    body: bytes


_encode_header = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(FileHeader).decode


def parse_name(name: str) -> Entry | None:
    """Parse a file's name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    due_ms, number, digest = match.groups()
    return Entry(int(due_ms), int(number, 16), int(digest, 16))


def parse_second(name: str) -> int | None:
    """Parse the epoch second in a directory's name; None for any other name."""
    return int(name) if name.isascii() and name.isdigit() and str(int(name)) == name else None


def encode(header: FileHeader, body: bytes) -> bytes:
    """Encode a message as the content of its file."""
    content = _encode_header(header) + b"\n" + body
    digest = hashlib.sha256(content, usedforsecurity=False).hexdigest()
    return b"%s%d sha256 %s\n%s" % (MAGIC, VERSION, digest.encode(), content)


def decode(content: bytes) -> DelayedFile:
    """Decode a file's content. Raises DamagedFileError."""
    first, _, rest = content.partition(b"\n")
    match = _FIRST_LINE.fullmatch(first)
    if match is None:
        raise _unknown(content)
    if hashlib.sha256(rest, usedforsecurity=False).hexdigest().encode() != match[1]:
        raise DamagedFileError("checksum", "the content does not match the checksum in the first line")
    line, _, body = rest.partition(b"\n")
    try:
        header = _decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError("header", f"the header cannot be read: {error}") from None
    if parse_name(header.entry.name) is None:
        raise DamagedFileError("header", f"number {header.number} or due_us {header.due_us} is out of range")
    if header.size != len(body):
        raise DamagedFileError(
            "size", f"the body is {len(body)} bytes long, but the header declares {header.size}"
        )
    return DelayedFile(header, body)


def _unknown(content: bytes) -> DamagedFileError:
    first, newline, _ = content.partition(b"\n")
    if not content.strip(b"\0") or (not newline and MAGIC.startswith(first[: len(MAGIC)])):
        return DamagedFileError("torn", f"the file ends after {len(content)} bytes, before its header")
    match = _ANY_VERSION.fullmatch(first)
    if match is not None and int(match[1]) != VERSION:
        return DamagedFileError(
            "version", f"the file has format version {int(match[1])}; this mocketmq reads version {VERSION}"
        )
    return DamagedFileError("stray", "the file does not begin with the header of a delayed message")
