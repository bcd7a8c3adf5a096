"""The options that choose messages: ``--filter`` by tags, or ``--sql`` by properties."""

import functools
from collections.abc import Callable
from typing import Any

import click


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
