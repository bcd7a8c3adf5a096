"""``mocketmq groups``, which lists, creates, resets and deletes consumer groups."""

from typing import Literal

import click

from mocketmq.cli.completion import complete_groups, complete_topics
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import GroupWithDefault, examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient
from mocketmq.instant import parse_instant_ms


@click.group(
    cls=GroupWithDefault,
    default="ls",
    epilog=examples("groups", "groups create billing --max-retries 3", "groups reset billing orders"),
)
def groups() -> None:
    """List the groups, their lag in each queue and their dead letters; create, reset or delete a group."""


@groups.command("ls", epilog=examples("groups ls"))
@with_broker
def list_groups(broker: BlockingClient, output: Output) -> None:
    """List the groups, their lag in each queue and their dead letters."""
    found = broker.groups()
    columns = ("group", "topic", ">queue", ">committed", ">end", ">lag", ">in flight", ">retrying")
    rows = [
        (
            group["name"],
            queue["topic"],
            queue["queue_id"] if queue["lite_topic"] is None else queue["lite_topic"],
            queue["committed_offset"],
            queue["max_offset"],
            queue["lag"],
            queue["in_flight"],
            queue["retrying"],
        )
        for group in found
        for queue in group["queues"]
    ]
    rows += [(group["name"], *[None] * 7) for group in found if not group["queues"]]
    shown = Table(columns, rows, least=("end", "committed", "in flight", "retrying"), cut=("group", "topic"))
    dead = [
        f"{group['name']} has {letters} dead letter{'s' * (letters != 1)}: mocketmq peek %DLQ%{group['name']}"
        for group in found
        if (letters := group["dead_letters"])
    ]
    output.show({"groups": found}, shown if found else "no consumer groups", *dead)


@groups.command(epilog=examples("groups create billing --max-retries 3"))
@click.argument("name", shell_complete=complete_groups)
@click.option(
    "--max-retries",
    type=int,
    help="Retries before a message is a dead letter; by default 16 for a new group.",
)
@click.option("--retry-queues", type=int, help="Queues of its retry topic; by default 1 for a new group.")
@click.option("--fifo/--no-fifo", default=None, help="Whether its gRPC clients consume in order.")
@with_broker
def create(
    broker: BlockingClient,
    output: Output,
    name: str,
    max_retries: int | None,
    retry_queues: int | None,
    fifo: bool | None,
) -> None:
    """Create a consumer group, or change the given settings of an existing group."""
    answer = broker.put_group(name, max_retries=max_retries, retry_queues=retry_queues, fifo=fifo)
    output.show(answer, f"group {name} retries a message {answer['max_retries']} times")


@groups.command(epilog=examples("groups reset billing orders", "groups reset billing orders --to end"))
@click.argument("name", shell_complete=complete_groups)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--queue", type=int, help="Only this queue of the topic.")
@click.option(
    "--to", type=click.Choice(["start", "end"]), help="Reset to the start, which is the default, or the end."
)
@click.option(
    "--at", metavar="INSTANT", help="Reset to the first message stored then or later, by the broker's clock."
)
@click.option("--offset", type=int, help="Reset to this offset of the queue in --queue.")
@with_broker
def reset(
    broker: BlockingClient,
    output: Output,
    name: str,
    topic: str,
    queue: int | None,
    to: Literal["start", "end"] | None,
    at: str | None,
    offset: int | None,
) -> None:
    """Reset a consumer group's offsets in a topic.

    The group's messages in flight in the topic become visible again.
    """
    if [to, at, offset].count(None) < 2:
        raise click.UsageError("only one of --to, --at and --offset can be given")
    if offset is not None and queue is None:
        raise click.UsageError("--offset needs --queue")
    instant_ms = None if at is None else parse_instant_ms(at, "instant_ms")
    answer = broker.reset_group(name, topic, queue_id=queue, to=to, instant_ms=instant_ms, offset=offset)
    queues = [
        each for each in answer["queues"] if each["topic"] == topic and queue in (None, each["queue_id"])
    ]
    lag = sum(each["lag"] for each in queues)
    output.show(answer, f"group {name} was reset in {topic}, with {lag} messages to consume")


@groups.command(epilog=examples("groups delete billing"))
@click.argument("name", shell_complete=complete_groups)
@with_broker
def delete(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete a consumer group and its committed offsets."""
    output.show(broker.delete_group(name), f"group {name} is deleted")
