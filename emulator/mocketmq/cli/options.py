"""What commands share: examples at the end of the help, filter options, groups with a default subcommand."""

import functools
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem


def examples(*commands: str) -> str:
    """Make the help's epilog from examples. tests/process/test_cli_help.py runs each example."""
    return "\b\nExamples:\n" + "\n".join(f"  mocketmq {command}" for command in commands)


class GroupWithDefault(click.Group):
    """A group that runs its subcommand ``default`` when the command line names none."""

    def __init__(self, *args: Any, default: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in ctx.help_option_names:
            args = args[:1]  # options of the subcommand may follow, which the group does not have
        elif args[0].startswith("-") if args else not ctx.resilient_parsing:
            args = [self._default, *args]  # but a shell completes the names of all subcommands
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return self.commands[self._default].shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


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
