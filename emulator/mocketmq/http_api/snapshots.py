"""Routes for snapshots: save the whole state under a name, restore it, compare two snapshots."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.snapshots.shelf import NAMES, Kept
from mocketmq.clock import US_PER_MS
from mocketmq.errors import (
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
)
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.fields import Input, NoInput, matching
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given

SnapshotName = Annotated[str, matching(r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$", NAMES)]


class SnapshotPath(Input, frozen=True):
    """The name of a snapshot."""

    snapshot: SnapshotName


class SnapshotIn(Input, frozen=True):
    """The name of the new snapshot, and whether to `replace` an existing snapshot with this name."""

    name: SnapshotName
    replace: bool = False


class SnapshotOut(msgspec.Struct, frozen=True):
    """A snapshot.

    The broker saved it at `saved_ms` on the wall clock, and `clock_ms` on its own clock. `messages` is the
    number of records in the store, and `pending` the number of messages that wait for their due time.
    `version` is the version of the broker that saved it, and `bytes` its size.
    """

    name: str
    version: str
    saved_ms: int
    clock_ms: int
    topics: int
    groups: int
    messages: int
    pending: int
    bytes: int


class DamagedSnapshot(msgspec.Struct, frozen=True):
    """A file in the directory of snapshots that is not a snapshot, or that this version cannot read."""

    name: str
    reason: str


class SnapshotList(msgspec.Struct, frozen=True):
    """Snapshots, sorted by name, and files that cannot be read."""

    snapshots: list[SnapshotOut]
    damaged: list[DamagedSnapshot]


class RestoredOut(msgspec.Struct, frozen=True):
    """The restored snapshot, and the broker's time after the restore."""

    snapshot: SnapshotOut
    now_ms: int


class DifferencesOf(SnapshotPath, frozen=True):
    """The earlier snapshot, and the later one, by default the broker's current state."""

    to: SnapshotName | UnsetType = UNSET


class DifferenceOut(msgspec.Struct, frozen=True):
    """A change, described in words by `text`.

    `kind` is `clock`, `pending`, `offset`, `in flight`, `dead`, `removed`, `topic added` and the like, or the
    kind of new records, such as `sent` or `delivered`. `messages` is the number of messages concerned.
    """

    kind: str
    text: str
    topic: str | None
    group: str | None
    messages: int | None


class DifferenceList(msgspec.Struct, frozen=True):
    """The changes between two snapshots, at most a thousand; empty if there are none."""

    differences: Annotated[list[DifferenceOut], Meta(max_length=1000)]


_UNREADABLE = (SnapshotNotFoundError, SnapshotDamagedError)
SNAPSHOTS = RouteGroup("snapshots", "Snapshots: save the whole state, and restore it")


@Route(SNAPSHOTS, "GET /v1/snapshots", "List the snapshots")
async def snapshots(call: ApiCall, _: NoInput) -> SnapshotList:
    """Returns all snapshots, and the files in their directory that cannot be read."""
    found, damaged = await call.broker.snapshots.listed()
    return SnapshotList([*map(_out, found)], [DamagedSnapshot(*one) for one in damaged.items()])


@Route(
    SNAPSHOTS,
    "POST /v1/snapshots",
    "Save a snapshot",
    status=201,
    errors=[SnapshotExistsError, SnapshotQuotaError],
)
async def save_snapshot(call: ApiCall, _: NoInput, wanted: SnapshotIn) -> SnapshotOut:
    """Responds once the snapshot is durable. Clients notice nothing."""
    return _out(await call.broker.snapshots.save(wanted.name, replace=wanted.replace))


@Route(SNAPSHOTS, "GET /v1/snapshots/{snapshot}", "Show a snapshot", errors=_UNREADABLE)
async def snapshot(call: ApiCall, path: SnapshotPath) -> SnapshotOut:
    """Returns the times, counts and size of a snapshot."""
    return _out(await call.broker.snapshots.find_snapshot(path.snapshot))


@Route(
    SNAPSHOTS,
    "POST /v1/snapshots/{snapshot}/restore",
    "Restore a snapshot",
    is_body_optional=True,
    errors=_UNREADABLE,
)
async def restore_snapshot(call: ApiCall, path: SnapshotPath, _: NoInput) -> RestoredOut:
    """Replaces messages, offsets, transactions, fault rules, topics, groups and the clock. Connections stay.

    All long polls end. Connected consumers continue at the restored offsets; the broker ignores offsets that
    they commit before they are notified. The broker refuses receipts of messages that were received after the
    save.
    """
    restored = await call.broker.snapshots.restore(path.snapshot)
    return RestoredOut(_out(restored.kept), restored.now_us // US_PER_MS)


@Route(
    SNAPSHOTS,
    "GET /v1/snapshots/{snapshot}/differences",
    "List the changes since a snapshot",
    errors=(*_UNREADABLE, SnapshotQuotaError),
)
async def snapshot_differences(call: ApiCall, wanted: DifferencesOf) -> DifferenceList:
    """Returns the changes after the snapshot, up to another snapshot or now."""
    found = await call.broker.snapshots.differences(wanted.snapshot, given(wanted.to))
    return DifferenceList([DifferenceOut(*one) for one in found])


@Route(SNAPSHOTS, "DELETE /v1/snapshots/{snapshot}", "Delete a snapshot", errors=[SnapshotNotFoundError])
async def delete_snapshot(call: ApiCall, path: SnapshotPath) -> SnapshotOut:
    """Returns the deleted snapshot. For a damaged file, only its name and size are set."""
    return _out(await call.broker.snapshots.remove(path.snapshot))


def _out(kept: Kept) -> SnapshotOut:
    clock_ms = kept.manifest.now_us // US_PER_MS
    return answer_from(SnapshotOut, kept.manifest, name=kept.name, clock_ms=clock_ms)
