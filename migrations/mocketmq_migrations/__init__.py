"""Alembic's history of the schema; ``upgrade`` brings a database to the newest revision.

CONTRIBUTING.md says how to add a migration.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL, create_engine
from sqlalchemy.exc import DBAPIError

from mocketmq.errors import StoreUnreadableError


def alembic_config() -> Config:
    """Alembic's configuration, without a connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def upgrade(path: str, revision: str = "head") -> None:
    """Bring the database file to ``revision`` in one transaction.

    Raises StoreUnreadableError when it was made by a newer version of this program, or an error of sqlite3.
    """
    config = alembic_config()
    engine = create_engine(URL.create("sqlite", database=path))
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection  # for env.py
            command.upgrade(config, revision)
    except DBAPIError as error:
        raise error.orig or error from error
    except CommandError as error:
        raise StoreUnreadableError(
            f"{path} has a schema that this version does not know ({error}); it was left as it is."
            " Start it with the newer version that made it"
        ) from error
    finally:
        engine.dispose()
