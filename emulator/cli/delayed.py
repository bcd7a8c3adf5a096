"""``mocketmq levels`` and ``mocketmq delayed``."""

import click

from emulator.cli.connection import with_broker
from emulator.cli.screen import Screen, instant, table
from emulator.client import Client


@click.command()
@with_broker
async def levels(broker: Client, screen: Screen) -> None:
    """Show the delay levels: how many wait, how far each has been delivered, what is due next."""
    found = await broker.levels()
    now_ms = (await broker.clock())["now_ms"]
    columns = (">level", ">delay", ">pending", ">delivered to", ">end", "next due", "oldest overdue")
    rows = (
        (
            level["level"],
            level["delay"],
            level["pending"],
            level["delay_offset"],
            level["max_offset"],
            instant(level["next_due_ms"], now_ms),
            instant(level["oldest_overdue_ms"], now_ms),
        )
        for level in found
    )
    screen.show({"levels": found}, table(columns, rows))


@click.group()
def delayed() -> None:
    """List, cancel or deliver what waits for its due time."""


@delayed.command("ls")
@click.option("--topic", help="Only what will go to this topic.")
@click.option("--level", type=int, help="Only this delay level.")
@click.option("--max", "max_messages", type=int, default=100, show_default=True, help="At most so many.")
@click.option("--after", type=int, help="Continue behind this number, which a longer list ends with.")
@with_broker
async def ls(
    broker: Client, screen: Screen, topic: str | None, level: int | None, max_messages: int, after: int | None
) -> None:
    """List the messages that wait for their due time, oldest first."""
    page = await broker.delayed(topic=topic, level=level, after=after, max_messages=max_messages)
    now_ms = (await broker.clock())["now_ms"]
    columns = ("due", ">level", "topic", ">queue", "message", "tag", "keys")
    rows = (
        (
            instant(each["due_ms"], now_ms),
            each["level"],
            each["real_topic"],
            each["real_queue_id"],
            each["message_id"],
            each["tag"],
            " ".join(each["keys"]),
        )
        for each in page["messages"]
    )
    more = page["next_after"]
    parts = [table(columns, rows)] if page["messages"] else ["nothing is pending"]
    screen.show(page, *parts, *([] if more is None else [f"there may be more: --after {more}"]))


@delayed.command("cancel")
@click.argument("message_id", metavar="ID")
@with_broker
async def cancel(broker: Client, screen: Screen, message_id: str) -> None:
    """Never deliver the message."""
    found = await broker.cancel(message_id)
    screen.show(found, f"cancelled {found['message_id']}, which was due {instant(found['due_ms'])}")


@delayed.command("deliver")
@click.argument("message_id", metavar="ID")
@with_broker
async def deliver(broker: Client, screen: Screen, message_id: str) -> None:
    """Deliver the message now instead of when it is due."""
    found = await broker.deliver(message_id)
    screen.show(
        found,
        f"delivered {found['message_id']} to {found['real_topic']}; it was due {instant(found['due_ms'])}",
    )
