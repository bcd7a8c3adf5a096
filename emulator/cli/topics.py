"""``mocketmq topics``, ``groups`` and ``reset``."""

import click

from emulator.cli.connection import with_broker
from emulator.cli.screen import Screen, table
from emulator.client import Client


@click.command()
@with_broker
async def topics(broker: Client, screen: Screen) -> None:
    """List the topics, their queues and how many messages each holds."""
    found = await broker.topics()
    columns = ("topic", "perm", ">read queues", ">write queues", ">messages", "kind")
    rows = (
        (
            topic["name"],
            topic["perm"],
            topic["read_queues"],
            topic["write_queues"],
            sum(queue["max_offset"] - queue["min_offset"] for queue in topic["queues"]),
            "system" if topic["system"] else "",
        )
        for topic in found
    )
    screen.show({"topics": found}, table(columns, rows))


@click.command()
@with_broker
async def groups(broker: Client, screen: Screen) -> None:
    """List the consumer groups, and per topic how far each is behind."""
    found = await broker.groups()
    columns = ("group", "topic", ">queue", ">committed", ">end", ">lag", ">in flight")
    rows = [
        (
            group["name"],
            queue["topic"],
            queue["queue_id"],
            queue["committed_offset"],
            queue["max_offset"],
            queue["lag"],
            queue["in_flight"],
        )
        for group in found
        for queue in group["queues"]
    ]
    rows += [(group["name"], *[None] * 6) for group in found if not group["queues"]]
    screen.show({"groups": found}, table(columns, rows) if found else "no consumer groups")


@click.command()
@click.option("--topic", help="Only this topic; without it, everything.")
@with_broker
async def reset(broker: Client, screen: Screen, topic: str | None) -> None:
    """Forget all messages, or those of one topic. Topics, groups and the clock stay as they are."""
    answer = await broker.reset(topic)
    screen.show(answer, f"topic {topic} is empty" if topic else "the broker is empty")
