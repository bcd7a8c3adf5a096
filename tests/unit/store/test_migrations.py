"""Migrations end at exactly the tables that the code uses, and lose no data on the way."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mocketmq_migrations
from mocketmq.store.database import FILE_NAME
from mocketmq.store.opening import open_database
from mocketmq.store.tables import HEAD_REVISION, SCHEMA
from mocketmq_migrations import UPGRADES
from tests.support import golden
from tests.support.brokers import S, bodies, receive, rows, running_broker

STORIES = Path(__file__).parent / "revisions"
"""One SQL file per revision, which fills a database of that revision with the same data."""


REVISIONS = re.findall(r"^-- Running upgrade \w* -> (\w+)$", UPGRADES.read_text("utf-8"), re.MULTILINE)


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return every table, column and index from SQLite."""
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


def test_newest_revision_matches_the_tables_of_the_code(tmp_path: Path) -> None:
    mocketmq_migrations.upgrade(str(tmp_path / "migrated.db"))
    with (
        closing(sqlite3.connect(tmp_path / "migrated.db")) as migrated,
        closing(sqlite3.connect(tmp_path / "made.db")) as made,
    ):
        made.executescript(SCHEMA)
        assert shape(migrated) == shape(made)


def test_the_sql_of_the_migrations_is_what_alembic_makes_of_them() -> None:
    """After changing a migration, run ``python -m mocketmq_migrations.as_sql``."""
    from mocketmq_migrations.as_sql import sql  # Alembic is for development only

    golden.check(UPGRADES, sql())


def test_the_code_knows_the_newest_revision() -> None:
    assert REVISIONS[-1] == HEAD_REVISION
    assert sorted(REVISIONS) == REVISIONS


def test_upgrades_need_neither_alembic_nor_sqlalchemy(tmp_path: Path) -> None:
    program = (
        "import sys, mocketmq_migrations as m; m.upgrade(sys.argv[1]);"
        "assert not {'alembic', 'sqlalchemy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "new.db")], check=True)


def test_every_revision_has_a_data_test() -> None:
    assert sorted(path.stem for path in STORIES.glob("*.sql")) == sorted(REVISIONS)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_upgrade_from_every_revision_keeps_all_data(tmp_path: Path, revision: str) -> None:
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


async def test_a_store_that_is_new_or_up_to_date_is_opened_without_the_migrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mocketmq_migrations, "upgrade", None)
    await (await open_database(str(tmp_path), "full")).close()
    await (await open_database(str(tmp_path), "full")).close()


async def test_failed_upgrade_leaves_the_old_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_point: str) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("mocketmq_migrations.pass_point", fail)
        with pytest.raises(ZeroDivisionError):
            mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert shape(connection) == {}


async def test_upgrade_renames_the_scheme_in_the_ledger(tmp_path: Path) -> None:
    mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME), "0011")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript((STORIES / "0011.sql").read_text("utf-8"))
        connection.execute("UPDATE deliveries SET scheme = 'second-directories', level = NULL")
        connection.commit()
    async with running_broker(tmp_path, retain_age_us=0) as broker:
        [delivery] = (await broker.histories.of("U1")).deliveries
        assert delivery.scheme == "directories"
