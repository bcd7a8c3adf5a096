"""``mocketmq topics``, ``groups`` and ``reset``."""

import click

from mocketmq.cli.connection import ask_broker, broker_options, with_broker
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient


@click.group(invoke_without_command=True)
@broker_options
@click.pass_context
def topics(ctx: click.Context, url: str, token: str | None, as_json: bool) -> None:
    """List the topics with their queues and messages; create or delete a topic."""
    if ctx.invoked_subcommand is None:
        ask_broker(url, token, lambda broker: _list_topics(broker, Output(as_json)))


@topics.command()
@click.argument("name")
@click.option(
    "--queues", type=int, default=4, show_default=True, help="Number of read queues, and of write queues."
)
@with_broker
def create(broker: BlockingClient, output: Output, name: str, queues: int) -> None:
    """Create a topic, or change its number of queues."""
    answer = broker.put_topic(name, read_queues=queues, write_queues=queues)
    output.show(answer, f"topic {name} has {queues} queues")


@topics.command("delete")
@click.argument("name")
@with_broker
def delete_topic(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete a topic with its messages, pending ones too."""
    answer = broker.delete_topic(name)
    output.show(answer, f"topic {name} is deleted; {answer['cancelled']} pending messages are cancelled")


def _list_topics(broker: BlockingClient, output: Output) -> None:
    found = broker.topics()
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
    least = ("kind", "perm", "write queues", "read queues")
    output.show({"topics": found}, Table(columns, rows, least=least))


@click.group(invoke_without_command=True)
@broker_options
@click.pass_context
def groups(ctx: click.Context, url: str, token: str | None, as_json: bool) -> None:
    """List the consumer groups and their lag in each queue; delete a group."""
    if ctx.invoked_subcommand is None:
        ask_broker(url, token, lambda broker: _list_groups(broker, Output(as_json)))


@groups.command("delete")
@click.argument("name")
@with_broker
def delete_group(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete a consumer group and its committed offsets."""
    output.show(broker.delete_group(name), f"group {name} is deleted")


def _list_groups(broker: BlockingClient, output: Output) -> None:
    found = broker.groups()
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
    shown = Table(columns, rows, least=("end", "committed", "in flight"))
    output.show({"groups": found}, shown if found else "no consumer groups")


@click.command()
@click.option("--topic", help="Only messages of this topic.")
@with_broker
def reset(broker: BlockingClient, output: Output, topic: str | None) -> None:
    """Delete all messages, or those of one topic. Topics, groups and the clock stay."""
    answer = broker.reset(topic)
    output.show(answer, "the broker is empty" if topic is None else f"topic {topic} is empty")
