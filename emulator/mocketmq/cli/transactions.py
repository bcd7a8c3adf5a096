"""``mocketmq transactions``, which lists, commits and rolls back half messages."""

import click

from mocketmq.cli.completion import complete_topics
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, distance, instant
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient


@click.group(
    epilog=examples("transactions ls --topic orders", "transactions commit A53FE6E206FD1A204474F20000000000")
)
def transactions() -> None:
    """List, commit or roll back half messages, which wait for their producers' decision."""


@transactions.command("ls", epilog=examples("transactions ls --topic orders"))
@click.option("--topic", shell_complete=complete_topics, help="Only half messages for this topic.")
@click.option(
    "--max",
    "max_messages",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Largest number of messages.",
)
@click.option("--after", type=int, help="The value at the end of the previous page, to list the next one.")
@with_broker
def ls(
    broker: BlockingClient, output: Output, topic: str | None, max_messages: int, after: int | None
) -> None:
    """List undecided half messages in order of arrival."""
    page = broker.transactions(topic=topic, after=after, max_messages=max_messages)
    now_ms = (broker.clock())["now_ms"]
    columns = (
        *("prepared", "topic", ">queue", "producers", ">checks", "next check", ">from now"),
        *("message", "tag", "keys"),
    )
    rows = (
        (
            instant(each["store_ms"]),
            each["real_topic"],
            each["real_queue_id"],
            each["producer_group"],
            each["checks"],
            instant(each["next_check_ms"]),
            distance(each["next_check_ms"], now_ms),
            each["message_id"],
            each["tag"],
            " ".join(each["keys"]),
        )
        for each in page["messages"]
    )
    least = ("keys", "tag", "queue", "next check", "prepared", "producers", "checks")
    output.show_page(
        page, Table(columns, rows, least=least, cut=("topic",)), "no half message is waiting for a decision"
    )


@transactions.command("commit", epilog=examples("transactions commit A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def commit(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Commit a half message.

    The message becomes visible, or waits for its due time.
    """
    half = broker.commit(message_id)
    output.show(half, f"committed {half['message_id']} to {half['real_topic']}")


@transactions.command("rollback", epilog=examples("transactions rollback A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def rollback(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Roll a half message back.

    No consumer will get the message.
    """
    half = broker.rollback(message_id)
    output.show(half, f"rolled back {half['message_id']}")
