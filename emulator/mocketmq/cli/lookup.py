"""``mocketmq peek``, ``find`` and ``message``: look at messages without consuming them."""

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit
from mocketmq.cli.options import examples, filter_options
from mocketmq.cli.output import Output, instant
from mocketmq.cli.table import Table
from mocketmq.cli.timeline import timeline
from mocketmq.client.answer import JsonObject, body_of
from mocketmq.client.blocking import BlockingClient

_MOST = click.IntRange(min=1)
_PAGE = 256


@click.command(epilog=examples("peek orders", "peek orders --offset -10", "peek %DLQ%billing --json"))
@click.argument("topic")
@click.option("--queue", type=int, help="Only this queue.")
@click.option(
    "--offset",
    type=int,
    default=0,
    show_default=True,
    help="Begin with this offset of each queue; -10 begins ten before its end.",
)
@click.option(
    "--max", "max_messages", type=_MOST, default=32, show_default=True, help="Most messages to show."
)
@filter_options
@with_broker
def peek(
    broker: BlockingClient,
    output: Output,
    topic: str,
    queue: int | None,
    offset: int,
    max_messages: int,
    tags: str,
    sql: str | None,
) -> None:
    """Show messages of TOPIC, which stay as they are for every consumer group.

    The oldest come first. With a negative --offset the newest are shown.
    """
    queues = broker.topic(topic)["queues"]
    ends = {each["queue_id"]: (each["min_offset"], each["max_offset"]) for each in queues}
    found: list[JsonObject] = []
    for number in ends if queue is None else [queue]:
        first, end = ends.get(number, (0, 1))  # the broker says it best that there is no such queue
        at, last = max(first, end + offset if offset < 0 else offset), len(found) + max_messages
        while at < end and len(found) < last:
            size = min(last - len(found), _PAGE)
            page = broker.browse(topic, number, offset=at, max_messages=size, tags=tags, sql=sql)
            found += page["messages"]
            at = page["next_offset"]
    found.sort(key=lambda each: each["log_offset"])
    found = found[-max_messages:] if offset < 0 else found[:max_messages]
    _show(output, found, f"nothing to see in {topic}")


@click.command(epilog=examples("find 7", "find 7 --topic orders --json"))
@click.argument("key")
@click.option("--topic", help="Only messages of this topic.")
@click.option("--max", "max_messages", type=int, default=64, show_default=True, help="Most messages to show.")
@with_broker
def find(broker: BlockingClient, output: Output, key: str, topic: str | None, max_messages: int) -> None:
    """Find messages by one of their keys, oldest first.

    A delayed message is found twice once it is delivered: as it was parked, and in its topic.
    """
    found = broker.messages_by_key(key, topic=topic, max_messages=max_messages)
    _show(output, found, f"no message has the key {key}")


@click.command(epilog=examples("message A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def message(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Show the history of a message: when it was stored, due, delivered, received and acknowledged."""
    history = broker.message(message_id)
    events = Table(
        ("time", ">after", "what happened"), timeline(history), least=("after",), folded="what happened"
    )
    output.show(history, f"message {history['message_id']} is {history['state']}", events)


def _show(output: Output, found: list[JsonObject], nothing: str) -> None:
    columns = ("stored", "message", "topic", ">queue", ">offset", "due", "tag", "keys", "body")
    least = ("offset", "queue", "due", "keys", "tag", "topic", "stored")
    rows = (
        (
            instant(each["store_ms"]),
            each["message_id"],
            each["topic"],
            each["queue_id"],
            each["queue_offset"],
            instant(each["due_ms"]),
            each["tag"],
            " ".join(each["keys"]),
            body_of(each).decode(errors="replace"),
        )
        for each in found
    )
    output.show({"messages": found}, Table(columns, rows, least=least, folded="body") if found else nothing)
    if not found:
        raise click.exceptions.Exit(Exit.NOTHING)
