"""Writes ``upgrades.sql``: run ``python -m mocketmq_migrations.as_sql`` after a change of ``versions``."""

import io
from pathlib import Path

from alembic import command
from alembic.config import Config

from mocketmq_migrations import UPGRADES


def alembic_config(output: io.StringIO | None = None) -> Config:
    """Make Alembic's configuration; it writes SQL to ``output``."""
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def sql() -> str:
    """All migrations as SQL, each after a line with its revision."""
    made = io.StringIO()
    command.upgrade(alembic_config(made), "head", sql=True)
    return "".join(f"{line.rstrip()}\n" for line in made.getvalue().splitlines())


if __name__ == "__main__":
    UPGRADES.write_text(sql(), "utf-8")
