"""Routes for snapshots: save the whole state under a name, go back to it, compare two."""

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
    """The name of the new snapshot, and whether to `replace` one that has the name."""

    name: SnapshotName
    replace: bool = False


class SnapshotOut(msgspec.Struct, frozen=True):
    """A snapshot. `clock_ms` is the time of the broker's clock in it, `saved_ms` the wall clock's at the
    save.

    `messages` counts the records of the store, `pending` the messages that wait for their due time. It was
    made by a broker of this `version`, and takes `bytes`.
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
    """A file of the snapshots' directory that is no snapshot, or cannot be read by this version."""

    name: str
    reason: str


class SnapshotList(msgspec.Struct, frozen=True):
    """Snapshots, by name."""

    snapshots: list[SnapshotOut]
    damaged: list[DamagedSnapshot]


class RestoredOut(msgspec.Struct, frozen=True):
    """The snapshot that the broker went back to, and the time of its clock."""

    snapshot: SnapshotOut
    now_ms: int


class DifferencesOf(SnapshotPath, frozen=True):
    """The earlier snapshot, and the later one; by default, the broker's state now."""

    to: SnapshotName | UnsetType = UNSET


class DifferenceOut(msgspec.Struct, frozen=True):
    """One thing that happened, in words (`text`) and as data.

    `kind` is `clock`, `pending`, `offset`, `in flight`, `dead`, `removed`, `topic added` and the like, or
    the kind of the records that were stored, such as `sent` or `delivered`. `messages` is their number.
    """

    kind: str
    text: str
    topic: str | None
    group: str | None
    messages: int | None


class DifferenceList(msgspec.Struct, frozen=True):
    """What happened between two snapshots, at most a thousand things; empty if nothing did."""

    differences: Annotated[list[DifferenceOut], Meta(max_length=1000)]


_UNREADABLE = (SnapshotNotFoundError, SnapshotDamagedError)
SNAPSHOTS = RouteGroup("snapshots", "Keep the whole state, and go back to it")


@Route(SNAPSHOTS, "GET /v1/snapshots", "List the snapshots")
async def snapshots(call: ApiCall, _: NoInput) -> SnapshotList:
    """Returns all snapshots, and the files among them that cannot be read."""
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
    """Answers once the snapshot is durable. Clients notice nothing of it."""
    return _out(await call.broker.snapshots.save(wanted.name, replace=wanted.replace))


@Route(SNAPSHOTS, "GET /v1/snapshots/{snapshot}", "Show a snapshot", errors=_UNREADABLE)
async def snapshot(call: ApiCall, path: SnapshotPath) -> SnapshotOut:
    """Returns the times, counts and size of a snapshot."""
    return _out(await call.broker.snapshots.find_snapshot(path.snapshot))


@Route(
    SNAPSHOTS,
    "POST /v1/snapshots/{snapshot}/restore",
    "Go back to a snapshot",
    is_body_optional=True,
    errors=_UNREADABLE,
)
async def restore_snapshot(call: ApiCall, path: SnapshotPath, _: NoInput) -> RestoredOut:
    """Replaces messages, offsets, transactions, faults, topics, groups and the clock. Connections stay.

    All long polls end. Connected consumers continue at the restored offsets, and what they commit before they
    learn of them is ignored. Receipts of messages that were received since the save are refused.
    """
    restored = await call.broker.snapshots.restore(path.snapshot)
    return RestoredOut(_out(restored.kept), restored.now_us // US_PER_MS)


@Route(
    SNAPSHOTS,
    "GET /v1/snapshots/{snapshot}/differences",
    "Say what happened since a snapshot",
    errors=(*_UNREADABLE, SnapshotQuotaError),
)
async def snapshot_differences(call: ApiCall, wanted: DifferencesOf) -> DifferenceList:
    """Returns what happened after the snapshot, up to another one or now."""
    found = await call.broker.snapshots.differences(wanted.snapshot, given(wanted.to))
    return DifferenceList([DifferenceOut(*one) for one in found])


@Route(SNAPSHOTS, "DELETE /v1/snapshots/{snapshot}", "Delete a snapshot", errors=[SnapshotNotFoundError])
async def delete_snapshot(call: ApiCall, path: SnapshotPath) -> SnapshotOut:
    """Returns what was deleted. Of a damaged file, that is its name and size; all else is 0 or empty."""
    return _out(await call.broker.snapshots.remove(path.snapshot))


def _out(kept: Kept) -> SnapshotOut:
    clock_ms = kept.manifest.now_us // US_PER_MS
    return answer_from(SnapshotOut, kept.manifest, name=kept.name, clock_ms=clock_ms)
