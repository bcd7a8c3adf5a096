"""The ``mocketmq`` command.

A command's module is imported when the command runs, so that ``serve`` starts without the parts that only
clients need and ``--help`` comes at once.
"""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from mocketmq import __version__
from mocketmq.cli.exit_codes import Exit, Failure, exit_of
from mocketmq.errors import EmulatorError

_COMMANDS = {
    "serve": ("mocketmq.cli.serve", "Start a broker."),
    "send": ("mocketmq.cli.messages", "Send a message, delayed or not."),
    "receive": ("mocketmq.cli.messages", "Receive messages for a consumer group."),
    "message": ("mocketmq.cli.messages", "Show the whole life of a message."),
    "levels": ("mocketmq.cli.delayed", "Show the delay levels and what waits in them."),
    "delayed": (
        "mocketmq.cli.delayed",
        "What waits for its due time: list, cancel or deliver it, check its files.",
    ),
    "transactions": (
        "mocketmq.cli.transactions",
        "Half messages that wait for a decision: list, commit or roll them back.",
    ),
    "clock": ("mocketmq.cli.clock", "Show the broker's clock, or move it."),
    "topics": ("mocketmq.cli.topics", "List the topics; create or delete one."),
    "groups": ("mocketmq.cli.topics", "List the consumer groups and their lag; delete one."),
    "clients": ("mocketmq.cli.clients", "List the RocketMQ clients that are connected."),
    "client": ("mocketmq.cli.clients", "Look into a consumer, or let it consume a message now."),
    "reset": ("mocketmq.cli.topics", "Forget all messages, or those of one topic."),
    "export": ("mocketmq.cli.export", "Write the ledger as Parquet."),
    "report": ("mocketmq_report.command", "How late was every delayed delivery, why, and does that pass?"),
    "healthcheck": ("mocketmq.cli.healthcheck", "Ask whether the broker is ready."),
    "demo": ("mocketmq.cli.demo", "Run a day of delayed messages through a broker of its own."),
}

_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {each.value:<4} {each.meaning}" for each in Exit)


class _Commands(click.Group):
    """Finds each command in its module, and turns errors into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click asks
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EmulatorError as error:
            raise Failure(str(error), exit_of(error)) from error
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="mocketmq %(version)s")
def commands() -> None:
    """RocketMQ for test environments: exact delays, inspectable and movable in time.

    Client commands talk to the broker at --url (MOCKETMQ_URL) with --token (MOCKETMQ_TOKEN), and print JSON
    for scripts with --json. Durations are written as 200ms, 10s or 1h30m.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        commands(arguments, prog_name="mocketmq")
    except Exception:  # noqa: BLE001 - a defect has an exit code of its own
        traceback.print_exc()
        sys.exit(Exit.DEFECT)
