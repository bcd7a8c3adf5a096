"""Makes packs from a captured state, and starts a broker from one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import msgspec

from mocketmq.broker.packs import pack_file
from mocketmq.broker.packs.pack_file import MAX_LINES_BYTES, Pack, PackError, write_pack
from mocketmq.broker.snapshots.snapshot_file import Manifest, SnapshotState, write_archive
from mocketmq.broker.snapshots.snapshots import Snapshots
from mocketmq.errors import SnapshotDamagedError
from mocketmq.instant import format_instant
from mocketmq.message.broker_share import position_of

OPENED: Final = "pack"
"""The name of the snapshot to which a broker that was opened from a pack can go back."""
MAX_DELIVERIES: Final = 10_000

_DELIVERIES: Final = """
SELECT d.unique_key AS message_id, d.due_us, d.delivered_us, cast(d.run AS TEXT) AS run, d.parked_offset,
 d.delivered_offset, d.topic, d.queue_id, d.queue_offset, d.scheme, d.level, d.attempt, d.size, d.forced,
 d.born_us, d.stored_us, d.picked_us, d.pulled_us, d.pulled_by, d.acked_us, d.fault, r.version, r.profile,
 r.clock, r.brokers AS broker
FROM deliveries d LEFT JOIN runs r ON r.run = d.run
ORDER BY d.delivered_offset DESC LIMIT ?"""


class StoryLine(msgspec.Struct, frozen=True):
    """An event: when it happened, in words, and as JSON."""

    at_us: int
    text: str
    as_json: bytes


class FailedTest(msgspec.Struct, frozen=True):
    """The test that failed, and the text of its failure. Both may be empty."""

    test: str
    text: str


def make_pack(
    state: SnapshotState, events: Sequence[StoryLine], settings: dict[str, object], failure: FailedTest
) -> bytes:
    """Make the file of a pack from a captured state. Blocks."""
    manifest = state.manifest
    _, snapshot = write_archive(state)
    members = {
        pack_file.STORY: _story(manifest, events, failure),
        pack_file.FAILURE: failure.text.encode(errors="replace"),
        pack_file.SETTINGS: msgspec.json.format(msgspec.json.encode(settings)) + b"\n",
        pack_file.EVENTS: _newest([event.as_json for event in events]),
        pack_file.LEDGER: _newest(_ledger(state.content)),
        pack_file.SNAPSHOT: snapshot,
    }
    return write_pack(failure.test, manifest.saved_us, manifest.now_us, members)


def _story(manifest: Manifest, events: Sequence[StoryLine], failure: FailedTest) -> bytes:
    head = [f"{failure.test} failed" if failure.test else "packed", ""]
    if failure.text:
        head += [failure.text, ""]
    clock = f"the clock ({manifest.clock}) shows {format_instant(manifest.now_us)}"
    head += [f"{clock}; records: {manifest.messages}, pending messages: {manifest.pending}", ""]
    told = _newest([f"{format_instant(event.at_us)} {event.text}".encode() for event in events])
    return "\n".join(head).encode(errors="replace") + b"\n" + told


def _ledger(content: bytes) -> list[bytes]:
    """The newest deliveries, oldest first, in the format of docs/ledger-format.md."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        found = connection.execute(_DELIVERIES, (MAX_DELIVERIES,))
        names = [name for name, *_ in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found]
    for row in rows:
        row["forced"] = bool(row["forced"])
        if brokers := row["broker"]:
            brokers = brokers.split(",")
            row["broker"] = brokers[position_of(row["topic"], row["queue_id"], len(brokers))]
        else:
            row["broker"] = None
    return [msgspec.json.encode(_without_nulls(row)) for row in reversed(rows)]


def _without_nulls(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if value is not None}


def _newest(lines: Sequence[bytes]) -> bytes:
    """The newest lines that fit into a member, oldest first."""
    kept: list[bytes] = []
    room = MAX_LINES_BYTES
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line + b"\n")
    return b"".join(reversed(kept))


async def restore_pack(snapshots: Snapshots, pack: Pack) -> None:
    """Begin with the state of a pack, and keep it as a snapshot. Raises PackError, or a StoreError."""
    snapshots.shelf.write(OPENED, pack.snapshot)
    try:
        await snapshots.restore(OPENED)
    except SnapshotDamagedError as error:
        raise PackError(f"{pack.name} cannot be opened: {error}") from None
