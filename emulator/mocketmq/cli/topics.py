"""``mocketmq topics`` and ``mocketmq reset``, which list, create, delete and empty topics."""

from collections.abc import Sequence
from typing import get_args

import click

from mocketmq.cli.completion import complete_topics
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import GroupWithDefault, examples
from mocketmq.cli.output import Output, instant
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.message.message_types import MessageType
from mocketmq.setting_rules import BROKER_QUEUES, parse_broker_queues


@click.group(
    cls=GroupWithDefault,
    default="ls",
    epilog=examples("topics", "topics create orders --queues 8", "topics delete orders"),
)
def topics() -> None:
    """List the topics with their queues and messages; create or delete a topic."""


@topics.command("ls", epilog=examples("topics ls"))
@with_broker
def list_topics(broker: BlockingClient, output: Output) -> None:
    """List the topics with their queues and messages."""
    found = broker.topics()
    placed = _brokers_of(found)
    columns = ["topic", "perm", "type", ">read queues", ">write queues", ">messages", "kind"]
    if any(placed.values()):
        columns.append("brokers")
    rows = (
        (
            topic["name"],
            topic["perm"],
            topic["type"],
            topic["read_queues"],
            topic["write_queues"],
            topic["lite_messages"] + sum(each["max_offset"] - each["min_offset"] for each in topic["queues"]),
            "system" if topic["system"] else "",
            placed[topic["name"]],
        )[: len(columns)]
        for topic in found
    )
    least = ("type", "kind", "perm", "write queues", "read queues")
    output.show({"topics": found}, Table(columns, rows, least=least, cut=("topic",)))


@topics.command(
    epilog=examples(
        "topics create orders --queues 8",
        "topics create orders --type delay",
        "topics create orders --broker broker-a --broker broker-b=8",
    )
)
@click.argument("name")
@click.option(
    "--queues", type=int, help="Number of read queues, and of write queues; by default 4 for a new topic."
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(get_args(MessageType)),
    help="Message type that the topic accepts from gRPC clients; a new topic accepts all.",
)
@click.option(
    "--broker",
    "brokers",
    metavar="NAME[=QUEUES]",
    multiple=True,
    help="Broker of the cluster to hold the topic, and its number of queues; by default, all brokers.",
)
@with_broker
def create(
    broker: BlockingClient,
    output: Output,
    name: str,
    queues: int | None,
    kind: str | None,
    brokers: tuple[str, ...],
) -> None:
    """Create a topic, or change the given settings of an existing topic."""
    try:
        placed = parse_broker_queues(",".join(brokers)) if brokers else {}
    except ValueError:
        raise click.BadParameter(f"{', '.join(brokers)}; allowed: {BROKER_QUEUES.allowed}") from None
    answer = broker.create_topic(name, queues=queues, type=kind, brokers=placed or None)
    takes = "" if kind is None else f" and accepts {kind} messages"
    counts = {each["name"]: each["read_queues"] for each in answer["brokers"]}
    at = ", ".join(f"{counts[each]} at {each}" for each in placed)
    output.show(answer, f"topic {name} has {at or answer['read_queues']} queues{takes}")


@topics.command(epilog=examples("topics delete orders"))
@click.argument("name", shell_complete=complete_topics)
@with_broker
def delete(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete a topic with its messages, including pending ones."""
    answer = broker.delete_topic(name)
    output.show(answer, f"topic {name} is deleted; {answer['cancelled']} pending messages are cancelled")


def _brokers_of(topics: Sequence[JsonObject]) -> dict[str, str]:
    """Return each topic's brokers with their numbers of queues; empty if all brokers have the same number."""
    known = {each["name"] for topic in topics for each in topic["brokers"]}
    found = {}
    for topic in topics:
        at = {each["name"]: each["read_queues"] for each in topic["brokers"]}
        is_alike = topic["system"] or (len(at) == len(known) and len(set(at.values())) == 1)
        found[topic["name"]] = "" if is_alike else ", ".join(f"{name}={count}" for name, count in at.items())
    return found


@click.command(epilog=examples("reset", "reset --topic orders", "reset --clock start --forget"))
@click.option("--topic", shell_complete=complete_topics, help="Only messages of this topic.")
@click.option(
    "--clock", metavar="start|INSTANT", help="Set the clock back to its first start, or to an instant."
)
@click.option(
    "--forget", is_flag=True, help="Delete undeclared topics and groups that no connected client uses."
)
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
