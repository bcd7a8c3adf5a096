"""Snapshots over HTTP: what they keep and say, their files, limits and refusals."""

import json
import os
import sqlite3
import zipfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import mocketmq_migrations
from mocketmq.broker.snapshots import shelf, snapshot_file, snapshots
from mocketmq.settings import TopicDeclaration
from mocketmq.store.database import FILE_NAME
from mocketmq.store.snapshot_rows import KEPT_RECORDS, empty_snapshot
from tests.support.api import Api, running_api
from tests.unit.store.test_migrations import REVISIONS, STORIES

SNAPSHOTS = "/v1/snapshots"


@pytest.fixture(params=["disk", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A broker whose snapshots are on the disk, or in memory."""
    data = str(tmp_path / "data") if request.param == "disk" else ":memory:"
    async with running_api(data=data) as api:
        yield api


async def save(api: Api, name: str = "here", **more: Any) -> Any:
    return await api.ok("POST", SNAPSHOTS, {"name": name, **more})


async def restore(api: Api, name: str = "here") -> Any:
    return await api.ok("POST", f"{SNAPSHOTS}/{name}/restore")


async def send(api: Api, body: str, topic: str = "orders", **more: Any) -> None:
    await api.ok("POST", f"/v1/topics/{topic}/messages", {"body": body, "queue_id": 0, **more})


async def receive(api: Api, group: str = "billing") -> list[Any]:
    wanted = {"topic": "orders", "max": 16, "invisible": "1m"}
    return list((await api.ok("POST", f"/v1/groups/{group}/receive", wanted))["messages"])


async def differences(api: Api, query: str = "") -> list[str]:
    found = await api.ok("GET", f"{SNAPSHOTS}/here/differences{query}")
    return [each["text"] for each in found["differences"]]


async def test_a_snapshot_is_listed_shown_and_deleted(kept: Api) -> None:
    await send(kept, "one")
    await send(kept, "two", delay_level=16)
    saved = await save(kept)
    assert (saved["name"], saved["messages"], saved["pending"]) == ("here", 2, 1)
    assert saved["clock_ms"] == (await kept.ok("GET", "/v1/clock"))["now_ms"]
    assert await kept.ok("GET", SNAPSHOTS) == {"snapshots": [saved], "damaged": []}
    assert await kept.ok("GET", f"{SNAPSHOTS}/here") == saved
    assert await kept.ok("DELETE", f"{SNAPSHOTS}/here") == saved
    assert await kept.ok("GET", SNAPSHOTS) == {"snapshots": [], "damaged": []}
    problem = await kept.refused(404, "POST", f"{SNAPSHOTS}/here/restore")
    assert problem["detail"] == "no snapshot is named here; there are none"


async def test_a_restore_takes_everything_back(kept: Api) -> None:
    await send(kept, "waiting", delay_level=16)
    await kept.ok("POST", "/v1/faults", {"do": "late", "by": "1ms", "topic": "none", "name": "slow"})
    await kept.ok("POST", "/v1/topics/orders/transactions", {"body": "half", "group": "shop"})
    await save(kept)
    now_ms = (await kept.ok("GET", "/v1/clock"))["now_ms"]
    before = {path: await kept.ok("GET", path) for path in SEEN}
    await kept.ok("POST", "/v1/clock/advance", {"by": "2h"})
    await kept.ok("DELETE", "/v1/faults")
    await send(kept, "other", topic="made-later")
    await receive(kept)
    restored = await restore(kept)
    assert (restored["snapshot"]["name"], restored["now_ms"]) == ("here", now_ms)
    assert {path: await kept.ok("GET", path) for path in SEEN} == before
    await kept.refused(404, "GET", "/v1/topics/made-later")


SEEN = (
    "/v1/topics",
    "/v1/groups",
    "/v1/delayed",
    "/v1/faults",
    "/v1/transactions?topic=orders",
    "/v1/levels",
)


async def test_receipts_since_the_save_are_refused_even_if_the_message_is_received_again(kept: Api) -> None:
    await send(kept, "before")
    [held] = await receive(kept, "audit")
    await save(kept)
    [undone] = await receive(kept)
    await restore(kept)
    [taken] = await receive(kept)
    assert taken["receipt"] != undone["receipt"]
    problem = await kept.refused(409, "POST", "/v1/groups/billing/ack", {"receipts": [undone["receipt"]]})
    assert "a snapshot was restored since" in problem["detail"]
    for group, one in (("billing", taken), ("audit", held)):
        answer = await kept.ok("POST", f"/v1/groups/{group}/ack", {"receipts": [one["receipt"]]})
        assert answer["failed"] == []


async def test_differences_say_what_happened(kept: Api) -> None:
    await send(kept, "one", delay_level=16)
    await send(kept, "two")
    await save(kept)
    assert await differences(kept) == []
    await send(kept, "three")
    await send(kept, "four", topic="invoices")
    taken = await receive(kept)
    await kept.ok("POST", "/v1/groups/billing/ack", {"receipts": [one["receipt"] for one in taken[:1]]})
    await kept.ok("POST", "/v1/faults", {"do": "late", "by": "1ms", "topic": "none", "name": "slow"})
    await kept.ok("POST", "/v1/clock/advance", {"by": "30m"})
    await save(kept, "later")
    now = (await kept.ok("GET", "/v1/clock"))["now"]
    said = [
        f"the clock went forward by 30m, to {now}",
        "the topic invoices was added",
        "1 message was sent to invoices",
        "1 message was sent to orders",
        "1 message was delivered to orders",
        "pending messages: 0 (was 1)",
        "the group billing was added",
        "the group billing moved in orders: queue 0 from 0 to 1",
        "the group billing has 1 of orders in flight, 0 before",
        "the fault slow was added",
    ]
    assert await differences(kept, "?to=later") == said
    assert await differences(kept) == said
    await restore(kept)
    back = await kept.ok("GET", f"{SNAPSHOTS}/later/differences?to=here")
    assert "2 messages of orders removed, with their copies" in str(back).replace(" were", "")


async def test_a_name_is_taken_until_it_is_to_be_replaced(kept: Api) -> None:
    await save(kept)
    problem = await kept.refused(409, "POST", SNAPSHOTS, {"name": "here"})
    assert problem["detail"] == "a snapshot named here already exists; delete it, or save with replace"
    await send(kept, "one")
    assert (await save(kept, replace=True))["messages"] == 1


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a b", "x" * 65, "ü"])
async def test_other_names_are_refused(kept: Api, name: str) -> None:
    problem = await kept.refused(400, "POST", SNAPSHOTS, {"name": name})
    assert shelf.NAMES in problem["detail"]


async def test_there_are_limits(kept: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOTS", 1)
    await save(kept)
    problem = await kept.refused(409, "POST", SNAPSHOTS, {"name": "second"})
    assert problem["detail"] == "there are already 1 snapshots; allowed: at most 1. Delete some first"
    for module, limit in ((snapshots, "MAX_BYTES"), (snapshots, "MAX_TOTAL_BYTES")):
        monkeypatch.setattr(module, limit, 1_000)
        problem = await kept.refused(409, "POST", SNAPSHOTS, {"name": "here", "replace": True})
        assert "allowed: 1000" in problem["detail"]
        monkeypatch.setattr(module, limit, 1 << 30)
    assert len((await kept.ok("GET", SNAPSHOTS))["snapshots"]) == 1


async def test_consumers_with_offsets_are_told_of_the_restored_ones(
    kept: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that pulls gets a notice; what it commits before is ignored."""
    broker = kept.emulator.broker
    for number in range(3):
        await send(kept, str(number))
    await broker.committed_offsets.commit("billing", "orders", 0, 1)
    await save(kept)
    live = Mock(model="CLUSTERING")
    monkeypatch.setattr(broker.registry.clients, "find_connected_group", lambda _: live)
    await broker.pull.pull("billing", "orders", 0, 1, 2)
    assert await broker.committed_offsets.report("billing", "orders", 0, 3)
    await restore(kept)
    assert broker.committed_offsets.of("billing", "orders", 0) == 1
    assert not await broker.committed_offsets.report("billing", "orders", 0, 3)
    told = await broker.pull.pull("billing", "orders", 0, 3, 2)
    assert (told.next_offset, told.messages) == (1, [])
    assert len((await broker.pull.pull("billing", "orders", 0, 1, 2)).messages) == 2
    assert await broker.committed_offsets.report("billing", "orders", 0, 2)


# Files


async def saved_file(directory: Path) -> Path:
    """The file of a snapshot with one message."""
    async with running_api(snapshots=str(directory)) as api:
        await send(api, "one")
        await save(api)
    return directory / "here.snapshot"


async def test_another_broker_reads_the_file(tmp_path: Path) -> None:
    await saved_file(tmp_path)
    async with running_api(snapshots=str(tmp_path), levels="1s 2s", topic_queues=2) as api:
        await restore(api)
        assert [one["body"] for one in await receive(api)] == ["one"]
        await send(api, "late", delay_level=2)
        assert (await api.ok("POST", "/v1/clock/advance", {"by": "2s"}))["fired"] == 1


async def test_a_file_that_was_changed_by_hand_is_restored_as_it_is(tmp_path: Path) -> None:
    async with running_api(snapshots=str(tmp_path)) as api:
        await send(api, "one")
        await save(api)
        file = tmp_path / "here.snapshot"
        with zipfile.ZipFile(file) as archive:
            content = archive.read(FILE_NAME)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            connection.execute("UPDATE messages SET body = CAST('changed' AS BLOB)")
            connection.commit()
            rewrite(file, connection.serialize())
        for _ in range(2):
            await restore(api)
            assert [one["body"] for one in await receive(api)] == ["changed"]


async def test_a_cluster_restores_snapshots_of_as_many_brokers(tmp_path: Path) -> None:
    await saved_file(tmp_path)
    async with running_api(snapshots=str(tmp_path), brokers=2) as api:
        problem = await api.refused(409, "POST", f"{SNAPSHOTS}/here/restore")
        assert "was saved by a cluster with --brokers 1" in problem["detail"]
        await send(api, "late", delay_level=1)
        await save(api, replace=True)
        names = [each["name"] for each in (await api.ok("GET", "/v1/brokers"))["brokers"]]
        for name in names:
            await api.ok("POST", f"/v1/brokers/{name}/crash")
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
        await save(api, "down")
        for name in ("here", "down"):
            await restore(api, name)
            assert {each["state"] for each in (await api.ok("GET", "/v1/brokers"))["brokers"]} == {"running"}
            await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
            assert [one["body"] for one in await receive(api)] == ["late"]


async def test_a_message_whose_broker_is_down_is_held_without_a_fault() -> None:
    async with running_api(brokers=2) as api:
        await send(api, "late", delay="1s")
        await save(api)
        for each in (await api.ok("GET", "/v1/brokers"))["brokers"]:
            await api.ok("POST", f"/v1/brokers/{each['name']}/crash")
        await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
        assert "1 message was held in orders" in await differences(api)


async def test_a_broker_with_more_levels_restores_a_snapshot_with_fewer(tmp_path: Path) -> None:
    await saved_file(tmp_path)
    async with running_api(snapshots=str(tmp_path), levels=" ".join(["1s"] * 30)) as api:
        await restore(api)
        await send(api, "late", delay_level=30)
        assert (await api.ok("POST", "/v1/clock/advance", {"by": "1s"}))["fired"] == 1


async def test_topics_of_the_settings_exist_after_a_restore(tmp_path: Path) -> None:
    await saved_file(tmp_path)
    async with running_api(snapshots=str(tmp_path), topics=(TopicDeclaration(name="declared"),)) as api:
        await restore(api)
        assert (await api.ok("GET", "/v1/topics/declared"))["name"] == "declared"


@pytest.mark.parametrize("revision", REVISIONS[-1::-4])
async def test_a_snapshot_of_an_earlier_version_is_upgraded(tmp_path: Path, revision: str) -> None:
    file = await saved_file(tmp_path)
    content = old_database(tmp_path, revision)
    rewrite(file, content, revision=revision)
    async with running_api(snapshots=str(tmp_path)) as api:
        assert (await api.ok("GET", SNAPSHOTS))["damaged"] == []
        await restore(api)
        await send(api, "new", topic="brand-new")
        assert await differences(api) != []


async def test_damaged_files_are_listed_and_refused(tmp_path: Path) -> None:
    file = await saved_file(tmp_path)
    sound = file.read_bytes()
    for damage, reason in (
        (sound[: len(sound) // 2], "is not a mocketmq snapshot, or is damaged"),
        (b"", "is not a mocketmq snapshot, or is damaged"),
        (sound.replace(b"one", b"two"), "is damaged: Bad CRC-32"),
    ):
        file.write_bytes(damage)
        async with running_api(snapshots=str(tmp_path)) as api:
            problem = await api.refused(409, "POST", f"{SNAPSHOTS}/here/restore")
            assert reason in problem["detail"]
    rewrite(file, empty_snapshot(), sha256="0" * 64)
    async with running_api(snapshots=str(tmp_path)) as api:
        problem = await api.refused(409, "POST", f"{SNAPSHOTS}/here/restore")
        assert "does not match the digest in its manifest" in problem["detail"]


async def test_other_things_in_the_directory_are_no_snapshots(tmp_path: Path) -> None:
    """Only a file under a snapshot's name is one; the list and saves ignore the rest."""
    file = await saved_file(tmp_path)
    (tmp_path / "directory.snapshot").mkdir()
    (tmp_path / "dangling.snapshot").symlink_to(tmp_path / "nothing")
    (tmp_path / "linked.snapshot").symlink_to(file)
    async with running_api(snapshots=str(tmp_path)) as api:
        await save(api, "later")
        found = await api.ok("GET", SNAPSHOTS)
        assert [each["name"] for each in found["snapshots"]] == ["here", "later", "linked"]
        assert found["damaged"] == []
        for name in ("directory", "dangling"):
            problem = await api.refused(404, "DELETE", f"{SNAPSHOTS}/{name}")
            assert problem["detail"].endswith("there are here, later, linked")


async def test_a_damaged_file_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "broken.snapshot").write_bytes(b"nothing")
    async with running_api(snapshots=str(tmp_path)) as api:
        [damaged] = (await api.ok("GET", SNAPSHOTS))["damaged"]
        assert damaged["name"] == "broken"
        deleted = await api.ok("DELETE", f"{SNAPSHOTS}/broken")
        assert (deleted["name"], deleted["version"], deleted["bytes"]) == ("broken", "", 7)
        assert await api.ok("GET", SNAPSHOTS) == {"snapshots": [], "damaged": []}
        await api.refused(404, "DELETE", f"{SNAPSHOTS}/broken")


async def test_a_save_removes_temporary_files_that_a_kill_has_left(tmp_path: Path) -> None:
    old, new = tmp_path / "old.saving", tmp_path / "new.saving"
    for file in (old, new):
        file.write_bytes(b"begun")
    os.utime(old, (0, 0))
    await saved_file(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


async def test_files_of_newer_versions_and_with_other_tables_are_refused(tmp_path: Path) -> None:
    file = await saved_file(tmp_path)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(empty_snapshot())
        connection.execute("CREATE TRIGGER t AFTER INSERT ON topics BEGIN DELETE FROM topics; END")
        odd = connection.serialize()
        connection.deserialize(empty_snapshot())
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
        newer = connection.serialize()
    for content, changed, reason in (
        (odd, {}, "its database differs in the trigger t"),
        (newer, {}, "has the schema 9999, which this version does not know"),
        (empty_snapshot(), {"format": 2, "version": "9.9.9"}, "Use version 9.9.9, which made it"),
        (b"no database", {}, "is damaged"),
    ):
        rewrite(file, content, **changed)
        async with running_api(snapshots=str(tmp_path)) as api:
            problem = await api.refused(409, "POST", f"{SNAPSHOTS}/here/restore")
            assert reason in problem["detail"]


def rewrite(file: Path, content: bytes, **changed: object) -> None:
    """Replace the database of a snapshot, and fields of its manifest."""
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    fields = {"format": snapshot_file.FORMAT, "bytes": len(content), "sha256": sha256(content).hexdigest()}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps({**manifest, **fields, **changed}))
        archive.writestr(FILE_NAME, content)


def old_database(directory: Path, revision: str) -> bytes:
    """A store of an earlier revision with rows, and the table of a snapshot."""
    path = directory / f"{revision}.db"
    mocketmq_migrations.upgrade(str(path), revision)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((STORIES / f"{revision}.sql").read_text("utf-8"))
        connection.executescript(KEPT_RECORDS)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "UPDATE messages SET queue_key = 99999",
            "a row of messages refers to a missing row of queues",
        ),
        ("UPDATE topics SET config = '{'", "config of a row of topics: "),
        ("UPDATE queues SET next_offset = 'x'", "next_offset of a row of queues is not an integer"),
        ("UPDATE topics SET name = CAST(name AS BLOB)", "name of a row of topics is not a text"),
        ("UPDATE topics SET name = CAST(x'ff' AS TEXT) WHERE name = 'orders'", "Could not decode to UTF-8"),
        (
            "UPDATE topics SET read_queues = 1025",
            "read_queues of a row of topics is 1025; allowed: 0 to 1024",
        ),
        (
            "ALTER TABLE topics ADD COLUMN more TEXT",
            "its database differs in the columns of the table topics",
        ),
        (
            "INSERT INTO receipts (group_name, log_offset, queue_key, queue_offset, times, visible_us,"
            " settled_us, attempts) SELECT 'x', log_offset, queue_key, 0, 1, 0, 0, 'garbage' FROM messages",
            "attempts of a row of receipts cannot be read: 'garbage'",
        ),
        (
            "DROP TABLE alembic_version; CREATE VIEW alembic_version AS WITH RECURSIVE n(version_num) AS"
            " (SELECT 1 UNION ALL SELECT version_num + 1 FROM n) SELECT max(version_num) version_num FROM n",
            "its database differs in the view alembic_version",
        ),
        ("INSERT INTO faults VALUES ('f', '{\"do\": 1}', 0, 0, 0)", "rule of a row of faults: "),
        (
            "INSERT INTO receipts (group_name, log_offset, queue_key, queue_offset, times, visible_us)"
            " SELECT 'nobody', log_offset, queue_key, 0, 1, 0 FROM messages",
            "a row of receipts refers to a missing row of groups",
        ),
    ],
)
async def test_rows_that_a_broker_could_not_load_are_refused(tmp_path: Path, sql: str, reason: str) -> None:
    file = await saved_file(tmp_path)
    with zipfile.ZipFile(file) as archive:
        content = archive.read(FILE_NAME)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        connection.executescript(sql)
        rewrite(file, connection.serialize())
    async with running_api(snapshots=str(tmp_path)) as api:
        await send(api, "kept")
        problem = await api.refused(409, "POST", f"{SNAPSHOTS}/here/restore")
        assert reason in problem["detail"]
        assert [one["body"] for one in await receive(api)] == ["kept"]
