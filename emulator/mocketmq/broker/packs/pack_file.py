"""The file of a pack: a ZIP archive with a manifest, the snapshot of a broker, and texts for people.

``manifest.json`` comes first. The manifest names the format, the version that made the pack, the test, and
the size and SHA-256 of every other member. ``state.snapshot`` is an unchanged snapshot file, so the code for
snapshots upgrades and checks it.

The file may come from anywhere, so it is read into memory and never unpacked into a directory. Only the
members named here are allowed, each once and within its limit. The size of the archive's directory is checked
before ``zipfile`` reads it.
"""

import hashlib
import io
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from mocketmq import __version__
from mocketmq.broker.snapshots.snapshot_file import MAX_BYTES
from mocketmq.clock import LATEST_US
from mocketmq.errors import EmulatorError

if TYPE_CHECKING:
    from zipfile import ZipFile

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SNAPSHOT: Final = "state.snapshot"
STORY: Final = "story.txt"
FAILURE: Final = "failure.txt"
EVENTS: Final = "events.jsonl"
LEDGER: Final = "ledger.jsonl"
SETTINGS: Final = "settings.json"
MAX_EVENTS: Final = 1_000
MAX_LINES_BYTES: Final = 16 << 20
"""Largest size of the events and of the ledger. Older lines are left out."""
MAX_FAILURE: Final = 200_000
"""Maximum length, in characters, of the text that says what failed."""
MAX_TEST: Final = 1_000
"""Maximum length, in characters, of a test's name."""

_LIMITS: Final = {
    MANIFEST: 64 << 10,
    STORY: 2 * MAX_LINES_BYTES,
    FAILURE: 4 * MAX_FAILURE,
    SETTINGS: 4 << 20,
    EVENTS: MAX_LINES_BYTES,
    LEDGER: MAX_LINES_BYTES,
    SNAPSHOT: MAX_BYTES + (1 << 20),
}
"""All members of a pack, in their order, with their largest sizes in bytes."""
_NAMES: Final = ", ".join(_LIMITS)
_MAX_FILE_BYTES: Final = sum(_LIMITS.values())
_END: Final = struct.Struct("<4s4H2LH")
"""The end of a ZIP archive without a comment: signature, disks, entries, size and place of the directory."""
_ZIP64_LOCATOR: Final = 20
_MAX_DIRECTORY: Final = 4 << 10
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)


class PackError(EmulatorError):
    """A file is not a pack, is damaged, or needs a newer version."""


class PackedMember(msgspec.Struct, frozen=True):
    """The size and the digest of a member."""

    bytes: int
    sha256: str


class _Beginning(msgspec.Struct, frozen=True):
    """The fields that the manifests of all formats have."""

    pack: int
    version: str


class PackManifest(msgspec.Struct, frozen=True):
    """What a pack contains. ``now_us`` is the broker's clock, ``packed_us`` the wall clock when it was made.

    ``pack`` is the number of the format.
    """

    pack: int
    version: str
    packed_us: Annotated[int, Meta(ge=0, le=LATEST_US)]
    now_us: Annotated[int, Meta(ge=0, le=LATEST_US)]
    test: Annotated[str, Meta(max_length=MAX_TEST)]
    members: dict[str, PackedMember]


class Pack(msgspec.Struct, frozen=True):
    """A pack that has been read. ``name`` is the name of its file."""

    name: str
    manifest: PackManifest
    snapshot: bytes
    failure: str
    settings: dict[str, Any]
    events: list[dict[str, Any]]


def write_pack(test: str, packed_us: int, now_us: int, members: Mapping[str, bytes]) -> bytes:
    """Make the file from these members, given by name, and add the manifest."""
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    described = {
        name: PackedMember(len(content), hashlib.sha256(content).hexdigest())
        for name, content in members.items()
    }
    manifest = msgspec.json.encode(
        PackManifest(FORMAT, __version__, packed_us, now_us, test[:MAX_TEST], described)
    )
    contents = {MANIFEST: manifest, **members}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in _LIMITS:
            member = zipfile.ZipInfo(name, _BEGINNING)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, contents[name])
    return file.getvalue()


def read_pack(path: Path) -> Pack:
    """Read and check a pack, except for its snapshot. Raises PackError, or OSError."""
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    name = path.name
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise PackError(f"{name} is larger than any pack; allowed: up to {_MAX_FILE_BYTES} bytes")
    content = path.read_bytes()
    _check_directory(content, name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive, name)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError, OSError) as error:
        raise PackError(f"{name} is not a mocketmq pack, or is damaged: {error}") from None


def _check_directory(content: bytes, name: str) -> None:
    """Refuse content that is not a ZIP archive, or whose directory is larger than that of a pack."""
    end = len(content) - _END.size
    if end < 0 or not content.startswith(b"PK\3\4"):
        raise PackError(f"{name} is not a mocketmq pack: it is not a ZIP archive")
    signature, _, _, _, entries, size, _, _ = _END.unpack_from(content, end)
    locator = content[max(end - _ZIP64_LOCATOR, 0) : end]
    if signature != b"PK\5\6" or locator.startswith(b"PK\6\7"):
        raise PackError(f"{name} is damaged, or no pack of mocketmq: the end of the archive is missing")
    if entries > len(_LIMITS) or size > _MAX_DIRECTORY:
        raise PackError(f"{name} is not a mocketmq pack: it has {entries} members; allowed: {_NAMES}")


def _read(archive: "ZipFile", name: str) -> Pack:
    found = archive.infolist()
    for member in found:
        if member.filename not in _LIMITS:
            raise PackError(f"{name} has the member {member.filename!r}; allowed: {_NAMES}")
    if len({member.filename for member in found}) != len(found):
        raise PackError(f"{name} is damaged: it contains a member twice")
    manifest = _manifest(_member(archive, MANIFEST, name), name)
    contents = {}
    for member_name in _LIMITS:
        if member_name == MANIFEST:
            continue
        content = contents[member_name] = _member(archive, member_name, name)
        described = manifest.members.get(member_name)
        if described is None or described.sha256 != hashlib.sha256(content).hexdigest():
            raise PackError(f"{name} is damaged: {member_name} does not match its digest in {MANIFEST}")
    lines = contents[EVENTS].rstrip(b"\n")
    if lines.count(b"\n") >= MAX_EVENTS:
        raise PackError(f"{name} contains too many events; allowed: up to {MAX_EVENTS}")
    try:
        events = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines.split(b"\n") if line]
        settings = msgspec.json.decode(contents[SETTINGS], type=dict[str, Any])
        return Pack(name, manifest, contents[SNAPSHOT], contents[FAILURE].decode(), settings, events)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PackError(f"{name} is damaged: {error}") from None


def _manifest(content: bytes, name: str) -> PackManifest:
    try:
        beginning = msgspec.json.decode(content, type=_Beginning)
        if beginning.pack == FORMAT:
            return msgspec.json.decode(content, type=PackManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PackError(f"{name} has a {MANIFEST} that cannot be read: {error}") from None
    raise PackError(
        f"{name} has format {beginning.pack}, of mocketmq {beginning.version}; this version reads format"
        f" {FORMAT}. Open it with that version, or a newer one"
    )


def _member(archive: "ZipFile", member: str, name: str) -> bytes:
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    try:
        info = archive.getinfo(member)
    except KeyError:
        raise PackError(f"{name} is not a mocketmq pack: it has no {member}") from None
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PackError(f"{name} has a member {member} with a compression that packs do not use")
    if info.file_size > _LIMITS[member]:
        raise PackError(
            f"{name} has a member {member} of {info.file_size} bytes; allowed: up to {_LIMITS[member]}"
        )
    with archive.open(info) as content:
        return content.read(info.file_size)  # without a size, zipfile would decompress everything
