"""``mocketmq send``, ``receive`` and ``wait``."""

import json
import sys

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit
from mocketmq.cli.options import examples, filter_options
from mocketmq.cli.output import Output, distance, instant
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject, body_of
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.expecting import Like, whole_ms
from mocketmq.client.operations import MessageOptions
from mocketmq.instant import parse_instant_ms


@click.command(
    epilog=examples(
        "send orders 'order 7 was not paid' --level 16 --key 7",
        "send orders '{\"paid\": true}' --tag paid --property region=eu",
        "send orders - --delay 90s < body.json",
    )
)
@click.argument("topic")
@click.argument("body")
@click.option("--level", type=int, help="Delay level, numbered from 1; `mocketmq levels` shows them.")
@click.option("--delay", help="Delay, such as 1500ms, 90s or 2d; up to 3d.")
@click.option(
    "--at",
    metavar="INSTANT",
    help="Instant of delivery by the wall clock, at most 40d ahead: epoch milliseconds, or as "
    "2030-01-31T08:00:00Z.",
)
@click.option("--tag", help="Tag, by which receivers filter.")
@click.option("--key", "keys", multiple=True, help="Key to find the message by; may be repeated.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="User property; may be repeated."
)
@click.option("--queue", type=int, help="Queue to send to; without it, the broker picks one.")
@with_broker
def send(
    broker: BlockingClient,
    output: Output,
    topic: str,
    body: str,
    level: int | None,
    delay: str | None,
    at: str | None,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    queue: int | None,
) -> None:
    """Send a message to TOPIC. If BODY is -, the body is read from the standard input.

    The message is visible at once, or delayed by one of --level, --delay and --at.
    """
    if [level, delay, at].count(None) < 2:
        raise click.UsageError("only one of --level, --delay and --at can be given")
    options = MessageOptions()
    if level is not None:
        options["delay_level"] = level
    if delay is not None:
        options["delay_ms"] = whole_ms(delay, "delay")
    if at is not None:
        options["start_deliver_ms"] = parse_instant_ms(at, "start_deliver_ms")
    if tag is not None:
        options["tag"] = tag
    if keys:
        options["keys"] = keys
    if properties:
        options["properties"] = dict(map(_name_and_value, properties))
    if queue is not None:
        options["queue_id"] = queue
    content = sys.stdin.buffer.read() if body == "-" else body
    sent = broker.send(topic, content, **options)
    output.show(sent, _describe_sent(sent))
    if level is not None and level != sent["delay_level"]:
        click.echo(f"Note: --level {level} counts as {_describe_level(sent['delay_level'])}", err=True)


@click.command(
    epilog=examples(
        "receive orders --group billing --wait 10s",
        "receive orders --group billing --max 32 --filter 'paid || refunded'",
        "receive orders --group audit --sql 'price > 10' --no-ack --json",
    )
)
@click.argument("topic")
@click.option("--group", required=True, help="Consumer group.")
@click.option(
    "--max", "max_messages", type=int, default=1, show_default=True, help="Most messages to receive."
)
@click.option("--wait", default="0s", show_default=True, help="How long to wait for a first message.")
@click.option("--no-ack", is_flag=True, help="Do not acknowledge: the messages are visible again after 30s.")
@filter_options
@with_broker
def receive(
    broker: BlockingClient,
    output: Output,
    topic: str,
    group: str,
    max_messages: int,
    wait: str,
    no_ack: bool,
    tags: str,
    sql: str | None,
) -> None:
    """Receive messages of TOPIC for a consumer group, print and acknowledge them."""
    messages = broker.receive(topic, group=group, max_messages=max_messages, wait=wait, tags=tags, sql=sql)
    found = Table(
        ("stored", "message", "tag", "keys", ">attempt", "body"),
        map(_received_row, messages),
        least=("attempt", "keys", "tag", "stored"),
        folded="body",
    )
    nothing = f"nothing to receive from {topic} for group {group}"
    output.show({"messages": messages}, found if messages else nothing)
    if not messages:
        raise click.exceptions.Exit(Exit.NOTHING)
    if not no_ack:
        broker.acknowledge(group, messages)


@click.command(
    epilog=examples(
        "wait orders --count 3 --wait 30s",
        "wait orders --acknowledged-by billing --key 7",
        "wait orders --sent --tag paid --json-path '$.order.id=7'",
    )
)
@click.argument("topic")
@click.option("--count", type=int, default=1, show_default=True, help="Messages to wait for.")
@click.option("--wait", default="5s", show_default=True, help="How long to wait for them, in real time.")
@click.option("--sent", is_flag=True, help="Wait until they are sent, delayed or not.")
@click.option("--acknowledged-by", metavar="GROUP", help="Wait until this group has acknowledged them.")
@click.option("--dead", is_flag=True, help="Wait until they are dead letters.")
@click.option("--tag", help="Only messages with this tag.")
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="Only those with this property."
)
@click.option("--body", help="Only messages with this text as their body.")
@click.option(
    "--json-path",
    "paths",
    metavar="PATH=JSON",
    multiple=True,
    help="Only messages whose body has this value at this path, such as '$.order.id=7'.",
)
@with_broker
def wait(
    broker: BlockingClient,
    output: Output,
    topic: str,
    count: int,
    wait: str,
    sent: bool,
    acknowledged_by: str | None,
    dead: bool,
    tag: str | None,
    key: str | None,
    properties: tuple[str, ...],
    body: str | None,
    paths: tuple[str, ...],
) -> None:
    """Wait until messages are delivered to TOPIC, counted since it was created or reset.

    A delayed message counts once it is delivered. The exit code is 4 if the messages do not come in time;
    then those are shown that came nearest.
    """
    if [sent, dead, acknowledged_by is not None].count(True) > 1:
        raise click.UsageError("only one of --sent, --acknowledged-by and --dead can be given")
    like = Like()
    if tag is not None:
        like["tag"] = tag
    if key is not None:
        like["key"] = key
    if properties:
        like["properties"] = dict(map(_name_and_value, properties))
    if body is not None:
        like["body"] = body
    if paths:
        like["json_path"] = dict(map(_path_and_value, paths))
    if sent:
        stage, found = "sent", broker.wait_sent(topic, count, wait=wait, **like)
    elif acknowledged_by is not None:
        found = broker.wait_acknowledged(topic, count, group=acknowledged_by, wait=wait, **like)
        stage = "acknowledged"
    elif dead:
        stage, found = "dead", broker.wait_dead(topic, count, wait=wait, **like)
    else:
        stage, found = "delivered", broker.wait_delivered(topic, count, wait=wait, **like)
    if stage == "delivered":
        said = f"topic {topic} has received {found[stage]} of {count} messages"
    else:
        said = f"{found[stage]} of {count} messages of topic {topic} are {stage}"
    output.show(found, said, *([] if found["reached"] else [found["explanation"]]))
    if not found["reached"]:
        raise click.exceptions.Exit(Exit.NOTHING)


def _name_and_value(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _path_and_value(text: str) -> tuple[str, object]:
    path, equals, value = text.rpartition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not PATH=JSON", param_hint="--json-path")
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value  # text, as it is written in a shell


def _describe_sent(sent: JsonObject) -> str:
    where = f"{sent['message_id']} → {sent['topic']} queue {sent['queue_id']}"
    if sent["due_ms"] is None:
        return f"{where}, offset {sent['queue_offset']}"
    level = f", level {sent['delay_level']}" if sent["delay_level"] else ""
    return f"{where}{level}: due {instant(sent['due_ms'])}, {distance(sent['due_ms'], sent['store_ms'])}"


def _describe_level(level: int) -> str:
    return f"{level}, the highest level" if level else "0, no delay"


def _received_row(message: JsonObject) -> tuple[object, ...]:
    body = body_of(message).decode(errors="replace")
    keys = " ".join(message["keys"])
    return instant(message["store_ms"]), message["message_id"], message["tag"], keys, message["attempt"], body
