"""The file of a snapshot: an archive (ZIP, not compressed) of two members.

``manifest.json`` comes first. The manifest says which version made the snapshot, when, and what the snapshot
contains, with the size and SHA-256 of the other member. ``mocketmq.db`` is a database with the schema of a
store, in the manifest's ``revision``, and the table ``kept_records`` (``store/snapshot_rows.py``). The
migrations of stores upgrade older revisions in memory when the file is read.

The file may come from another machine, so it is checked: sizes are limited, the digest is compared, and the
database may contain only the tables of a store, because triggers and views would run as code.
"""

import hashlib
import io
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from mocketmq import __version__
from mocketmq.broker.snapshots.snapshot_check import check_is_data, check_rows, check_schema, opened_content
from mocketmq.clock import LATEST_US
from mocketmq.errors import SnapshotDamagedError, StoreError
from mocketmq.store.database import FILE_NAME
from mocketmq.store.tables import HEAD_REVISION

if TYPE_CHECKING:
    from zipfile import ZipFile

FORMAT: Final = 1
MAX_BYTES: Final = 256 << 20
"""Largest size of a snapshot's file."""
_MANIFEST: Final = "manifest.json"
_MAX_MANIFEST: Final = 64 << 10
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that equal states make equal files

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot contains. ``now_us`` is the broker's clock, ``saved_us`` the wall clock at the save.

    ``messages`` counts the records of the store, ``pending`` the messages that wait for their due time.
    """

    format: int
    version: str
    revision: str
    saved_us: Annotated[int, Meta(ge=0, le=LATEST_US)]
    now_us: Annotated[int, Meta(ge=0, le=LATEST_US)]
    clock: str
    topics: Count
    groups: Count
    messages: Count
    pending: Count
    bytes: Count = 0
    sha256: str = ""


@dataclass(eq=False, frozen=True, repr=False)
class SnapshotState:
    """A snapshot that has been read and checked: its manifest, and its database of the newest revision."""

    manifest: Manifest
    content: bytes


def new_manifest(**given: int | str) -> Manifest:
    """Make the manifest of a snapshot by this version."""
    return Manifest(FORMAT, __version__, HEAD_REVISION, **given)  # type: ignore[arg-type]


def unreadable_manifest(size: int) -> Manifest:
    """Make a replacement for a manifest that cannot be read, in a file of ``size`` bytes."""
    return Manifest(0, "", "", 0, 0, "", 0, 0, 0, 0, bytes=size)


def write_archive(state: SnapshotState) -> tuple[SnapshotState, bytes]:
    """Make the file. Return it, and the state with the database's size and digest in its manifest."""
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    content, digest = state.content, hashlib.sha256(state.content).hexdigest()
    manifest = msgspec.structs.replace(state.manifest, bytes=len(content), sha256=digest)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in ((_MANIFEST, msgspec.json.encode(manifest)), (FILE_NAME, content)):
            archive.writestr(zipfile.ZipInfo(name, _BEGINNING), data)
    return SnapshotState(manifest, content), file.getvalue()


def read_manifest(file: Path | io.BytesIO, name: str) -> Manifest:
    """Read the manifest of a snapshot's file. Raises SnapshotDamagedError, or OSError."""
    with _opened(file, name) as archive:
        return _manifest(archive, name)


def read_archive(file: Path | io.BytesIO, name: str) -> SnapshotState:
    """Read and check a snapshot's file. Raises SnapshotDamagedError, or OSError."""
    with _opened(file, name) as archive:
        manifest = _manifest(archive, name)
        content = _member(archive, FILE_NAME, MAX_BYTES, name)
    if len(content) != manifest.bytes or hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise SnapshotDamagedError(
            f"snapshot {name} is damaged: its database does not match the digest in its manifest"
        )
    try:
        return SnapshotState(manifest, _checked(_newest(content, name), name))
    except sqlite3.Error as error:
        raise SnapshotDamagedError(f"snapshot {name} is damaged: {error}") from None


def _opened(file: Path | io.BytesIO, name: str) -> "ZipFile":
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    try:
        if isinstance(file, Path) and file.stat().st_size > MAX_BYTES + (1 << 20):
            raise SnapshotDamagedError(
                f"snapshot {name} is {file.stat().st_size} bytes long; allowed: up to {MAX_BYTES}"
            )
        return zipfile.ZipFile(file)  # NotImplementedError: an archive of several disks
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SnapshotDamagedError(
            f"snapshot {name} is not a mocketmq snapshot, or is damaged: {error}"
        ) from None


def _manifest(archive: "ZipFile", name: str) -> Manifest:
    data = _member(archive, _MANIFEST, _MAX_MANIFEST, name)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise SnapshotDamagedError(f"snapshot {name} has a manifest that cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise SnapshotDamagedError(
            f"snapshot {name} has format {manifest.format}; this version reads format {FORMAT}. Use version"
            f" {manifest.version}, which made it, or a newer one"
        )
    return manifest


def _member(archive: "ZipFile", member: str, most: int, name: str) -> bytes:
    import zipfile  # noqa: PLC0415 - most brokers have no archives

    try:
        info = archive.getinfo(member)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise SnapshotDamagedError(
                f"snapshot {name} has a member {member} that is compressed or larger than {most} bytes"
            )
        return archive.read(info)  # RuntimeError: encrypted; NotImplementedError: otherwise compressed
    except KeyError:
        raise SnapshotDamagedError(f"snapshot {name} has no member {member}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise SnapshotDamagedError(f"snapshot {name} is damaged: {error}") from None


def _newest(content: bytes, name: str) -> bytes:
    """Upgrade the database to the newest schema."""
    with opened_content(content) as connection:
        check_is_data(connection, name)
        revisions = connection.execute("SELECT version_num FROM alembic_version LIMIT 1").fetchall()
    revision = revisions[0][0] if revisions else ""
    if revision == HEAD_REVISION:
        return content
    import mocketmq_migrations  # noqa: PLC0415 - rarely needed

    with tempfile.TemporaryDirectory(prefix="mocketmq-snapshot-") as directory:
        path = Path(directory, FILE_NAME)
        path.write_bytes(content)
        try:
            mocketmq_migrations.upgrade(str(path))
        except StoreError:
            raise SnapshotDamagedError(
                f"snapshot {name} has the schema {revision}, which this version does not know; use the newer"
                " version that made it"
            ) from None
        return path.read_bytes()


def _checked(content: bytes, name: str) -> bytes:
    """Return the database if it has the tables and indexes of a snapshot, and rows that a broker can load."""
    with opened_content(content) as connection:
        check_schema(connection, name)
        check_rows(connection, name)
    return content
