"""Run the migrations for Alembic, in one transaction: a kill in the middle leaves the old schema."""

from alembic import context

from mocketmq.failpoint import pass_point

connection = context.config.attributes["connection"]
connection.rollback()
# Python's sqlite3 opens no transaction for DDL by itself.
connection.exec_driver_sql("BEGIN IMMEDIATE")
context.configure(connection=connection, transactional_ddl=True, render_as_batch=True)
context.run_migrations()
pass_point("migrate.upgraded")
connection.commit()
