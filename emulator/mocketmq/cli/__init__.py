"""The ``mocketmq`` command, with the table of subcommands and the conversion of errors to exit codes.

A subcommand's module is imported when it runs, so that ``serve`` and ``--help`` need not import the others.
"""

import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Final

import click
from click.shell_completion import CompletionItem

from mocketmq import __version__
from mocketmq.cli.exit_codes import Exit, Failure, exit_of
from mocketmq.compiled import is_compiled
from mocketmq.errors import EmulatorError
from mocketmq.suggestion import suggestion_for

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name the system's certificates (OpenSSL's ``SSL_CTX_set_default_verify_paths``)."""
_COMMANDS = {
    "serve": ("mocketmq.cli.serve", "Start a broker."),
    "send": ("mocketmq.cli.messages", "Send a message, delayed or not."),
    "schema": ("mocketmq.cli.schema", "Print the JSON schema of the settings file."),
    "seed": ("mocketmq.cli.messages", "Store messages with a past."),
    "receive": ("mocketmq.cli.messages", "Receive messages for a consumer group."),
    "info": ("mocketmq.cli.info", "Show the broker's addresses, version, settings and limits."),
    "wait": ("mocketmq.cli.messages", "Wait until a topic has received messages."),
    "events": ("mocketmq.cli.lookup", "Show the events since the last reset."),
    "leaks": ("mocketmq.cli.lookup", "List messages that consumers have not acknowledged."),
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
    "brokers": (
        "mocketmq.cli.cluster",
        "List the cluster's brokers; crash them, cut them off, start them.",
    ),
    "name-servers": (
        "mocketmq.cli.cluster",
        "List the cluster's name servers; stop them, or falsify their lists of brokers.",
    ),
    "faults": ("mocketmq.cli.faults", "Inject faults; list and end fault rules."),
    "snapshot": (
        "mocketmq.cli.snapshot",
        "Save the broker's state under a name, restore it, compare two states.",
    ),
    "pack": ("mocketmq.cli.pack", "Pack the state and the events of a failed test into a file."),
    "open": ("mocketmq.cli.open", "Open a pack: a broker at the moment of the failure, with its console."),
    "reset": ("mocketmq.cli.topics", "Delete all messages, or those of one topic."),
    "export": ("mocketmq.cli.ledger", "Export the ledger as Parquet."),
    "sql": ("mocketmq.cli.ledger", "Query the ledger in SQL."),
    "report": ("mocketmq_report.command", "Report how late delayed messages were, and check thresholds."),
    "probe": ("mocketmq.cli.probe", "Measure how late a real cluster delivers."),
    "lab": ("mocketmq.cli.lab", "Compare delay schemes under the same load."),
    "record": ("mocketmq.cli.record", "Record the messages of a real RocketMQ."),
    "replay": ("mocketmq.cli.replay", "Replay a recording, at any speed."),
    "relay": ("mocketmq.cli.relay", "Delay messages for a real Kafka or RocketMQ."),
    "mcp": ("mocketmq.cli.mcp", "Offer tools for the broker to coding agents."),
    "healthcheck": ("mocketmq.cli.info", "Check that the broker is ready."),
    "demo": ("mocketmq.cli.demo", "Play a day of delayed messages, and check what consumers receive."),
}
_STORY = "'mocketmq message ID' shows the history of a message, 'mocketmq events' everything that happened"
_MEANT = {"story": _STORY, "history": _STORY, "life": _STORY}
"""What to use instead of words that people try as commands."""
_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {each.value:<4} {each.meaning}" for each in Exit)
_NO_REPORTS = (
    "lateness reports, exports, SQL and the lab are not part of this bundle: use the image mocketmq-report,"
    " or install mocketmq with its extra 'report'"
)
_BEFORE = ("--url", "--token")
"""Options of subcommands that may also precede the subcommand."""


def lean_import(module: str, *, serves: bool) -> ModuleType:
    """Import a module. ``serves`` says that the process never connects to a server by aiohttp.

    When aiohttp is imported, it reads all of the system's certificates for its client, which takes 30 ms and
    2 MB. A server's process does without them.
    """
    gc.disable()  # collections during imports would take a twentieth of the start time
    try:
        if not serves:
            return import_module(module)
        with _no_certificates():
            return import_module(module)
    finally:
        gc.enable()


@contextmanager
def _no_certificates() -> Iterator[None]:
    """Let OpenSSL find no certificates for a while."""
    before = {name: os.environ.get(name) for name in _CERTIFICATES}
    os.environ.update(dict.fromkeys(_CERTIFICATES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Commands(click.Group):
    """Imports a command when it is used, and turns errors into a sentence and an exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _behind_command(args))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = lean_import(_COMMANDS[cmd_name][0], serves=cmd_name == "serve")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0])
        if name in _MEANT:
            ctx.fail(f"No such command {name!r}: {_MEANT[name]}.")
        if name not in _COMMANDS and (meant := suggestion_for(name, _COMMANDS)):
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
        except ModuleNotFoundError as error:
            if error.name != "mocketmq_report":  # the whole package, which the bundle leaves out
                raise
            raise Failure(_NO_REPORTS, Exit.USAGE) from error


def _behind_command(args: list[str]) -> list[str]:
    """Move options that precede the subcommand to the end, where the subcommand reads them."""
    moved: list[str] = []
    while args and args[0].partition("=")[0] in _BEFORE:
        count = 1 if "=" in args[0] else 2
        moved, args = moved + args[:count], args[count:]
    if not args:
        return moved
    end = args.index("--") if "--" in args else len(args)
    return [*args[:end], *moved, *args[end:]]


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"mocketmq %(version)s, {'' if is_compiled() else 'not '}compiled")
def commands() -> None:
    """RocketMQ for test environments: exact delays, and a clock that tests can move.

    Client commands talk to the broker at --url (MOCKETMQ_URL) with --token (MOCKETMQ_TOKEN), given before or
    after the command. With --json they print JSON. Durations are written as 200ms, 10s or 1h30m.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        sys.exit(commands.main(arguments, prog_name="mocketmq", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:  # Ctrl-C at any point
        sys.exit(Exit.INTERRUPTED)
    except Exception:  # noqa: BLE001 - a defect, which also has an exit code
        traceback.print_exc()
        sys.exit(Exit.DEFECT)
