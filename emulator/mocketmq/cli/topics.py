"""``mocketmq topics`` and ``mocketmq reset``, which list, create, delete and empty topics."""

from typing import get_args

import click

from mocketmq.cli.completion import complete_topics
from mocketmq.cli.connection import ask_broker, broker_options, with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, instant
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient
from mocketmq.message.message_type import MessageType


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


@topics.command(epilog=examples("topics create orders --queues 8", "topics create orders --type delay"))
@click.argument("name")
@click.option(
    "--queues", type=int, default=4, show_default=True, help="Number of read queues, and of write queues."
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(get_args(MessageType)),
    help="Message type that gRPC clients may send to it; a new topic accepts all.",
)
@with_broker
def create(broker: BlockingClient, output: Output, name: str, queues: int, kind: str | None) -> None:
    """Create a topic, or change its number of queues and its type."""
    answer = broker.put_topic(name, read_queues=queues, write_queues=queues, type=kind)
    takes = "" if kind is None else f" and takes {kind} messages"
    output.show(answer, f"topic {name} has {queues} queues{takes}")


@topics.command(epilog=examples("topics delete orders"))
@click.argument("name", shell_complete=complete_topics)
@with_broker
def delete(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete a topic with its messages, including pending ones."""
    answer = broker.delete_topic(name)
    output.show(answer, f"topic {name} is deleted; {answer['cancelled']} pending messages are cancelled")


def _list_topics(broker: BlockingClient, output: Output) -> None:
    found = broker.topics()
    columns = ("topic", "perm", "type", ">read queues", ">write queues", ">messages", "kind")
    rows = (
        (
            topic["name"],
            topic["perm"],
            topic["type"],
            topic["read_queues"],
            topic["write_queues"],
            topic["lite_messages"] + sum(each["max_offset"] - each["min_offset"] for each in topic["queues"]),
            "system" if topic["system"] else "",
        )
        for topic in found
    )
    least = ("type", "kind", "perm", "write queues", "read queues")
    output.show({"topics": found}, Table(columns, rows, least=least, cut=("topic",)))


@click.command(epilog=examples("reset", "reset --topic orders", "reset --clock start --forget"))
@click.option("--topic", shell_complete=complete_topics, help="Only messages of this topic.")
@click.option(
    "--clock", metavar="start|INSTANT", help="Set the clock back to its first start, or to an instant."
)
@click.option("--forget", is_flag=True, help="Delete undeclared topics and groups that no client consumes.")
@with_broker
def reset(broker: BlockingClient, output: Output, topic: str | None, clock: str | None, forget: bool) -> None:
    """Delete all messages, or those of one topic.

    Topics and groups stay unless --forget is given; the clock stays unless --clock is given.
    """
    if topic is not None and (clock is not None or forget):
        raise click.UsageError("--topic cannot be given with --clock or --forget")
    answer = broker.reset(topic, clock=clock, forget=forget)
    at = "" if clock is None else f", and its clock begins at {instant(answer['now_ms'])}"
    output.show(answer, f"the broker is empty{at}" if topic is None else f"topic {topic} is empty")
