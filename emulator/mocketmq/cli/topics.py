"""``mocketmq topics`` and ``reset``."""

import click

from mocketmq.cli.connection import ask_broker, broker_options, with_broker
from mocketmq.cli.examples import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient


@click.group(
    invoke_without_command=True,
    epilog=examples("topics", "topics create orders --queues 8", "topics delete orders"),
)
@broker_options
@click.pass_context
def topics(ctx: click.Context, url: str, token: str | None, as_json: bool) -> None:
    """List the topics with their queues and messages; create or delete a topic."""
    if ctx.invoked_subcommand is None:
        ask_broker(url, token, lambda broker: _list_topics(broker, Output(as_json)))


@topics.command(epilog=examples("topics create orders --queues 8"))
@click.argument("name")
@click.option(
    "--queues", type=int, default=4, show_default=True, help="Number of read queues, and of write queues."
)
@with_broker
def create(broker: BlockingClient, output: Output, name: str, queues: int) -> None:
    """Create a topic, or change its number of queues."""
    answer = broker.put_topic(name, read_queues=queues, write_queues=queues)
    output.show(answer, f"topic {name} has {queues} queues")


@topics.command(epilog=examples("topics delete orders"))
@click.argument("name")
@with_broker
def delete(broker: BlockingClient, output: Output, name: str) -> None:
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


@click.command(epilog=examples("reset", "reset --topic orders"))
@click.option("--topic", help="Only messages of this topic.")
@with_broker
def reset(broker: BlockingClient, output: Output, topic: str | None) -> None:
    """Delete all messages, or those of one topic. Topics, groups and the clock stay."""
    answer = broker.reset(topic)
    output.show(answer, "the broker is empty" if topic is None else f"topic {topic} is empty")
