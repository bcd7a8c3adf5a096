"""The schema's history: it ends at exactly the tables that the code uses, and loses no data on the way."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory

import mocketmq_migrations
from mocketmq.store.database import FILE_NAME, Database
from mocketmq.store.tables import HEAD_REVISION, SCHEMA
from tests.support.brokers import S, bodies, receive, rows, running_broker

STORIES = Path(__file__).parent / "revisions"
"""One SQL file per revision, which fills a database of that revision. All tell the same."""


def script_directory() -> ScriptDirectory:
    return ScriptDirectory.from_config(mocketmq_migrations.alembic_config())


REVISIONS = [script.revision for script in reversed(list(script_directory().walk_revisions()))]


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Every table, column and index as SQLite has them."""
    found: dict[str, Any] = {}
    for _, name, kind, *flags in connection.execute("PRAGMA table_list"):
        if not name.startswith("sqlite_"):
            columns = [tuple(row) for row in connection.execute(f"PRAGMA table_xinfo({name})")]
            found[name] = (kind, flags, columns)
    for name, table, sql in connection.execute(
        "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ):
        found[name] = (table, sql.split())
    return found


def test_the_newest_revision_makes_exactly_the_tables_of_the_code(tmp_path: Path) -> None:
    mocketmq_migrations.upgrade(str(tmp_path / "migrated.db"))
    with (
        closing(sqlite3.connect(tmp_path / "migrated.db")) as migrated,
        closing(sqlite3.connect(tmp_path / "made.db")) as made,
    ):
        made.executescript(SCHEMA)
        assert shape(migrated) == shape(made)


def test_the_code_knows_the_newest_revision_and_there_is_one_line_of_them() -> None:
    assert script_directory().get_heads() == [HEAD_REVISION] == REVISIONS[-1:]


def test_every_revision_has_its_story() -> None:
    assert sorted(path.stem for path in STORIES.glob("*.sql")) == sorted(REVISIONS)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_store_of_every_revision_is_brought_up_to_date_with_all_it_holds(
    tmp_path: Path, revision: str
) -> None:
    mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME), revision)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript((STORIES / f"{revision}.sql").read_text("utf-8"))
    async with running_broker(tmp_path, retain_age_us=0) as broker:
        assert broker.clock.now_us() == 1_700_000_007 * S
        group = broker.registry.groups.get("billing")
        assert (group.max_retries, group.retry_queues) == (3, 2)
        assert bodies(p.message for p in await broker.pending.list()) == ["pending"]
        assert broker.pending.count == 1
        assert bodies(await receive(broker)) == ["fresh"]
        assert [message.unique_key for message in await broker.histories.by_key("k")] == ["U2"]
        assert (await broker.mover.advance(1 * S)).fired == 1
        assert bodies(await receive(broker)) == ["pending"]
        await broker.mover.move_to(1_700_000_034 * S)
        assert [(one.message.body, one.times) for one in await receive(broker)] == [(b"taken", 3)]
        life = await broker.histories.of("U1")
        assert [record.log_offset for record in life.records] == [10, 11]
        assert (len(life.deliveries), [take.outcome for take in life.receipts]) == (1, ["acked"])
    assert rows(tmp_path, "SELECT version_num FROM alembic_version") == [{"version_num": HEAD_REVISION}]
    assert rows(tmp_path, "SELECT min(log_offset) AS n FROM messages WHERE log_offset > 15") == [{"n": 100}]


async def test_a_store_that_is_new_or_up_to_date_is_opened_without_alembic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mocketmq_migrations, "upgrade", None)
    await (await Database.open(str(tmp_path), "full")).close()
    await (await Database.open(str(tmp_path), "full")).close()


async def test_an_upgrade_that_fails_leaves_the_old_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_point: str) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("mocketmq.failpoint.pass_point", fail)
        with pytest.raises(ZeroDivisionError):
            mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert shape(connection) == {}


async def test_the_ledger_of_an_older_store_calls_its_scheme_as_the_setting_does(tmp_path: Path) -> None:
    mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME), "0011")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript((STORIES / "0011.sql").read_text("utf-8"))
        connection.execute("UPDATE deliveries SET scheme = 'second-directories', level = NULL")
        connection.commit()
    async with running_broker(tmp_path, retain_age_us=0) as broker:
        [delivery] = (await broker.histories.of("U1")).deliveries
        assert delivery.scheme == "directories"
