"""What commands share: examples at the end of their help, and the options that choose messages."""

import functools
from collections.abc import Callable
from typing import Any

import click


def examples(*commands: str) -> str:
    """An epilog with a line for each; tests/process/test_cli_help.py runs them."""
    return "\b\nExamples:\n" + "\n".join(f"  mocketmq {command}" for command in commands)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--filter`` and ``--sql``, as ``tags`` and ``sql``; one of them at most."""

    @click.option("--filter", "tags", help="Only messages with these tags, such as 'A || B'.")
    @click.option("--sql", help="Only messages with such properties, as \"price > 10 AND paid = 'no'\".")
    @functools.wraps(command)
    def with_filter(tags: str | None, sql: str | None, **arguments: Any) -> None:
        if tags is not None and sql is not None:
            raise click.UsageError("only one of --filter and --sql can be given")
        command(tags=tags or "*", sql=sql, **arguments)

    return with_filter
