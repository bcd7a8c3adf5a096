"""The schema's history, kept by Alembic; ``upgrade`` brings a database to its newest revision.

A migration touches three places:

1. ``versions/NNNN_what_changes.py``: ``upgrade()``, with the next number as revision;
2. ``mocketmq/store/tables.py``: the same change of the tables, and ``HEAD_REVISION``;
3. ``tests/unit/store/revisions/NNNN.sql``: rows of a store of that revision, for the tests.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from mocketmq.errors import StoreUnreadableError


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for an open connection; ``env.py`` reads it from the attributes."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, path: str, revision: str = "head") -> None:
    """Bring the database to ``revision`` in one transaction.

    Raises StoreUnreadableError when it was made by a newer version of this program.
    """
    try:
        command.upgrade(alembic_config(connection), revision)
    except CommandError as error:
        raise StoreUnreadableError(
            f"{path} has a schema that this version does not know ({error}); it was left as it is."
            " Start it with the newer version that made it"
        ) from error
