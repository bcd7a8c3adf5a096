"""Alembic's environment: writes the migrations as SQL. Their caller begins and ends the transaction."""

from alembic import context

context.configure(dialect_name="sqlite", literal_binds=True, transactional_ddl=False)
context.run_migrations()
