"""``mocketmq levels`` and ``mocketmq delayed``, for delay levels and pending messages."""

from importlib import import_module
from pathlib import Path

import click
from click.core import ParameterSource

from mocketmq.cli.completion import complete_topics
from mocketmq.cli.connection import ask_broker, broker_options, with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, distance, instant
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient

_ON_FILES = {"cat": "cat", "import": "import_", "verify": "verify"}
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(epilog=examples("levels", "levels --json"))
@with_broker
def levels(broker: BlockingClient, output: Output) -> None:
    """Show the delay levels: pending messages, delivered offset, next due time."""
    answer = broker.levels()
    timed = answer["timed"]
    now_ms = (broker.clock())["now_ms"]
    columns = (
        *(">level", ">delay", ">pending", ">delivered to", ">end"),
        *("next due", ">from now", "oldest overdue", ">since"),
        "held by faults",
    )
    rows = (
        (
            level["level"],
            level["delay"],
            level["pending"],
            level["delay_offset"],
            level["max_offset"],
            instant(level["next_due_ms"]),
            distance(level["next_due_ms"], now_ms),
            instant(level["oldest_overdue_ms"]),
            distance(level["oldest_overdue_ms"], now_ms),
            _held_by(level["held"]) or None,
        )
        for level in answer["levels"]
    )
    due = instant(timed["next_due_ms"], now_ms)
    told = f"with an absolute due time: {timed['pending']} pending (scheme {timed['scheme']})"
    if timed["pending"]:
        told += f", the next due {due}"
    if timed["held"]:
        told += f"; held by faults: {_held_by(timed['held'])}"
    least = ("end", "delivered to", "oldest overdue", "delay", "since", "held by faults")
    output.show(answer, Table(columns, rows, least=least), told)


def _held_by(held: list[JsonObject]) -> str:
    """Name the fault rules that hold messages after their due time, each with its number of messages."""
    return ", ".join(f"{one['count']} by {one['fault']}" for one in held)


class _Delayed(click.Group):
    """Imports the commands on files only when such a command runs, because they need more modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_ON_FILES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ON_FILES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module("mocketmq.cli.delay_directory"), _ON_FILES[cmd_name])
        return command


@click.group(
    cls=_Delayed,
    epilog=examples(
        "delayed ls --topic orders",
        "delayed deliver A53FE6E206FD1A204474F20000000000",
        "delayed verify --dir mocketmq-data",
    ),
)
def delayed() -> None:
    """List, cancel or deliver pending messages; check and import their files."""


@delayed.command(
    "ls",
    epilog=examples(
        "delayed ls --topic orders --level 16",
        "delayed ls --max 1000 --json",
        "delayed ls --dir mocketmq-data",
    ),
)
@click.option(
    "--dir", "directory", type=DIRECTORY, help="List the messages in this directory, without a broker."
)
@click.option(
    "--timed-scheme", "scheme", metavar="NAME", help="The delay scheme to list, if --dir contains several."
)
@click.option("--topic", shell_complete=complete_topics, help="Only messages for this topic.")
@click.option("--level", type=int, help="Only messages of this delay level.")
@click.option(
    "--max",
    "max_messages",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Largest number of messages.",
)
@click.option("--after", help="The value at the end of the previous page, to list the next one.")
@broker_options
@click.pass_context
def ls(
    ctx: click.Context,
    directory: Path | None,
    scheme: str | None,
    topic: str | None,
    level: int | None,
    max_messages: int,
    after: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """List the pending messages.

    A broker lists up to 1000 in order of arrival. With --dir, the messages in the folder of a delay scheme or
    in a data directory are listed in order of due time.
    """
    output = Output(as_json)
    if directory is None:
        if scheme is not None:
            raise click.UsageError("--timed-scheme has no effect on a broker; add --dir, or leave it out")
        try:
            number = None if after is None else int(after)
        except ValueError:
            raise click.BadParameter(f"{after!r} is not a whole number", param_hint="--after") from None
        ask_broker(
            url, token, lambda broker: _list_pending(broker, output, topic, level, max_messages, number)
        )
        return
    for name in ("level", "url", "token"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} has no effect on files; leave out --{name} or --dir")
    import_module("mocketmq.cli.delay_directory").show_list(
        output, directory, scheme, topic, max_messages, after
    )


def _list_pending(
    broker: BlockingClient,
    output: Output,
    topic: str | None,
    level: int | None,
    max_messages: int,
    after: int | None,
) -> None:
    page = broker.delayed(topic=topic, level=level, after=after, max_messages=max_messages)
    now_ms = (broker.clock())["now_ms"]
    columns = ("due", ">from now", ">level", "topic", ">queue", "message", "tag", "keys", "held by")
    rows = (
        (
            instant(each["due_ms"]),
            distance(each["due_ms"], now_ms),
            each["level"],
            each["real_topic"],
            each["real_queue_id"],
            each["message_id"],
            each["tag"],
            " ".join(each["keys"]),
            each["fault"],
        )
        for each in page["messages"]
    )
    least = ("keys", "tag", "queue", "level", "topic", "from now", "due")
    nothing = "nothing is pending"
    if level is not None and not page["messages"] and level > (highest := len(broker.levels()["levels"])):
        nothing += f": the broker has levels 1 to {highest}"
    output.show_page(page, Table(columns, rows, least=least), nothing)


@delayed.command("cancel", epilog=examples("delayed cancel A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def cancel(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Cancel a message, so that it will never be delivered."""
    found = broker.cancel(message_id)
    output.show(found, f"cancelled {found['message_id']}, which was due {instant(found['due_ms'])}")


@delayed.command("deliver", epilog=examples("delayed deliver A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def deliver(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Deliver a message now, before it is due."""
    found = broker.deliver(message_id)
    output.show(
        found,
        f"delivered {found['message_id']} to {found['real_topic']}; it was due {instant(found['due_ms'])}",
    )
