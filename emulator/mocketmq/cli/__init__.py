"""The ``mocketmq`` command.

Each command's module is imported when it runs, so that ``serve`` and ``--help`` do not wait for the others.
"""

import gc
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from mocketmq import __version__
from mocketmq.cli.exit_codes import Exit, Failure, exit_of
from mocketmq.errors import EmulatorError
from mocketmq.nearest import nearest

_COMMANDS = {
    "serve": ("mocketmq.cli.serve", "Start a broker."),
    "send": ("mocketmq.cli.messages", "Send a message, delayed or not."),
    "receive": ("mocketmq.cli.messages", "Receive messages for a consumer group."),
    "wait": ("mocketmq.cli.messages", "Wait until a topic has received messages."),
    "events": ("mocketmq.cli.events", "Tell what happened since the last reset."),
    "leaks": ("mocketmq.cli.events", "List what consumers have not acknowledged."),
    "peek": ("mocketmq.cli.lookup", "Show messages of a topic without consuming them."),
    "find": ("mocketmq.cli.lookup", "Find messages by key."),
    "message": ("mocketmq.cli.lookup", "Show the history of a message."),
    "levels": ("mocketmq.cli.delayed", "Show the delay levels and their pending messages."),
    "delayed": (
        "mocketmq.cli.delayed",
        "List, cancel or deliver pending messages; check and import their files.",
    ),
    "transactions": (
        "mocketmq.cli.transactions",
        "List, commit or roll back half messages.",
    ),
    "verify": ("mocketmq.cli.verify", "Check a data directory for damage."),
    "clock": ("mocketmq.cli.clock", "Show the broker's clock, or move it forward."),
    "topics": ("mocketmq.cli.topics", "List the topics; create or delete a topic."),
    "groups": (
        "mocketmq.cli.groups",
        "List the consumer groups and their lag; create, reset or delete a group.",
    ),
    "clients": ("mocketmq.cli.clients", "List the connected RocketMQ clients."),
    "client": ("mocketmq.cli.clients", "Show what a consumer does, or have it consume a message."),
    "faults": ("mocketmq.cli.faults", "Inject faults; list and end fault rules."),
    "reset": ("mocketmq.cli.topics", "Delete all messages, or those of one topic."),
    "export": ("mocketmq.cli.export", "Export the ledger as Parquet."),
    "report": ("mocketmq_report.command", "Report how late delayed messages were, and check thresholds."),
    "probe": ("mocketmq.cli.probe", "Measure how late a real cluster delivers."),
    "lab": ("mocketmq.cli.lab", "Lay the delay schemes side by side, under the same load."),
    "relay": ("mocketmq.cli.relay", "Delay messages for a real Kafka or RocketMQ."),
    "healthcheck": ("mocketmq.cli.healthcheck", "Check that the broker is ready."),
    "demo": ("mocketmq.cli.demo", "Play a day of delayed messages, and check what consumers receive."),
}

_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {each.value:<4} {each.meaning}" for each in Exit)


class _Commands(click.Group):
    """Imports commands when they are used, and turns errors into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click asks
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        gc.disable()  # it would look at all that is imported again and again: a twentieth of a start
        try:
            command: click.Command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        finally:
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0])
        if name not in _COMMANDS and (meant := nearest(name, _COMMANDS)):
            ctx.fail(f"No such command {name!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in _COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=_COMMANDS[name][1]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EmulatorError as error:
            raise Failure(str(error), exit_of(error)) from error


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="mocketmq %(version)s")
def commands() -> None:
    """RocketMQ for test environments: exact delays, and a clock that tests can move.

    Client commands talk to the broker at --url (MOCKETMQ_URL) with --token (MOCKETMQ_TOKEN). With --json they
    print JSON. Durations are written as 200ms, 10s or 1h30m.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        sys.exit(commands.main(arguments, prog_name="mocketmq", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:  # Ctrl-C, wherever it came
        sys.exit(Exit.INTERRUPTED)
    except Exception:  # noqa: BLE001 - a defect has its own exit code
        traceback.print_exc()
        sys.exit(Exit.DEFECT)
