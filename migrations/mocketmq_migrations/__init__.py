"""The migrations of the store's schema; ``upgrade`` brings a database to the newest revision.

Alembic makes the SQL of all migrations from ``versions``: see ``as_sql``. It is kept in ``upgrades.sql``, so
that a broker needs neither Alembic nor SQLAlchemy. CONTRIBUTING.md says how to add a migration.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from mocketmq.errors import StoreUnreadableError
from mocketmq.failpoint import pass_point

UPGRADES: Final = Path(__file__).with_name("upgrades.sql")
_STEP: Final = re.compile(r"^-- Running upgrade (\w*) -> (\w+)\n", re.MULTILINE)


def upgrade(path: str, revision: str | None = None) -> None:
    """Upgrade the database file to ``revision``, by default the newest, in one transaction.

    After a kill, the file has the old schema. Raises StoreUnreadableError for a database of a newer version
    of this program, or an error of sqlite3.
    """
    first, *parts = _STEP.split(UPGRADES.read_text("utf-8"))
    steps = dict(zip(parts[1::3], parts[2::3], strict=True))
    revisions = list(steps)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        begin = 0
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            current = ", ".join(
                row[0] for row in connection.execute("SELECT version_num FROM alembic_version")
            )
            if current not in steps:
                raise StoreUnreadableError(
                    f"{path} has a schema that this version does not know ({current or 'no version'});"
                    " it was left as it is. Start it with the newer version that made it"
                )
            begin = revisions.index(current) + 1
        end = len(revisions) if revision is None else revisions.index(revision) + 1
        wanted = [*([] if begin else [first]), *(steps[each] for each in revisions[begin:end])]
        connection.executescript("".join(["BEGIN IMMEDIATE;", *wanted]))
        pass_point("migrate.upgraded")
        connection.execute("COMMIT")
