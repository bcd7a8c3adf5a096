"""``mocketmq events`` and ``mocketmq leaks``, for events since the last reset and unacknowledged messages."""

import click

from mocketmq.cli.completion import complete_groups
from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, instant
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient


@click.command(epilog=examples("events", "events --max 20"))
@click.option("--max", "most", type=int, default=200, show_default=True, help="Only the newest events.")
@with_broker
def events(broker: BlockingClient, output: Output, most: int) -> None:
    """Show the events since the last reset: messages, injected faults, moves of the clock.

    Times are on the broker's clock. The newest event comes last.
    """
    found = broker.events(max_events=most)
    rows = [(instant(each["at_ms"]), each["text"]) for each in found]
    shown = Table(("time", "event"), rows, folded="event")
    output.show({"events": found}, shown if found else "nothing has happened since the last reset")


@click.command(epilog=examples("leaks", "leaks --group billing --wait 6s"))
@click.option("--group", shell_complete=complete_groups, help="Only leaks of this consumer group.")
@click.option("--max", "most", type=int, default=100, show_default=True, help="Only the newest leaks.")
@click.option(
    "--wait",
    default="0",
    show_default=True,
    metavar="DURATION",
    help="Longest wait until there are none; RocketMQ's clients commit offsets every 5s.",
)
@with_broker
def leaks(broker: BlockingClient, output: Output, group: str | None, most: int, wait: str) -> None:
    """List messages that consumer groups have received, or will receive, and have not acknowledged.

    The exit code is 1 if there are any.
    """
    found = broker.leaks(group, wait=wait, max_leaks=most)
    output.show({"leaks": found}, *([each["text"] for each in found] or ["no leaks"]))
    if found:
        raise click.exceptions.Exit(Exit.REFUSED)
