"""The examples at the end of a command's help, and the filter options, which several commands share."""

import functools
from collections.abc import Callable
from typing import Any

import click


def examples(*commands: str) -> str:
    """Make the help's epilog from examples. tests/process/test_cli_help.py runs each example."""
    return "\b\nExamples:\n" + "\n".join(f"  mocketmq {command}" for command in commands)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments ``tags`` and ``sql`` for ``--filter`` and ``--sql``, which exclude each other."""

    @click.option("--filter", "tags", help="Only messages with these tags, such as 'A || B'.")
    @click.option(
        "--sql", help="Only messages whose properties match, such as \"price > 10 AND paid = 'no'\"."
    )
    @functools.wraps(command)
    def with_filter(tags: str | None, sql: str | None, **arguments: Any) -> None:
        if tags is not None and sql is not None:
            raise click.UsageError("only one of --filter and --sql can be given")
        command(tags=tags or "*", sql=sql, **arguments)

    return with_filter
