"""``mocketmq send``, ``seed``, ``receive`` and ``wait``."""

import json
import sys
from pathlib import Path

import click

from mocketmq.cli.completion import complete_groups, complete_topics
from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples, filter_options
from mocketmq.cli.output import Output, distance, instant
from mocketmq.cli.table import Table
from mocketmq.cli.text import counted
from mocketmq.client.answer import JsonObject, body_of
from mocketmq.client.api_calls import given
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.seeds import FORMATS, format_of
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.instant import parse_instant_ms
from mocketmq.suggestion import suggestion_for


@click.command(
    epilog=examples(
        "send orders 'order 7 was not paid' --level 16 --key 7",
        "send orders '{\"paid\": true}' --tag paid --property region=eu",
        "send orders - --delay 90s < body.json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.argument("body")
@click.option("--level", type=int, help="Delay level, numbered from 1; `mocketmq levels` shows them.")
@click.option(
    "--delay", help="Delay, such as 1500ms, 90s or 2d; up to 40d unless the broker's settings differ."
)
@click.option(
    "--at",
    metavar="INSTANT",
    help="Instant of delivery by the wall clock, at most 40d ahead: epoch milliseconds, or as "
    "`date -ud '+2 hours' +%FT%TZ` prints.",
)
@click.option("--tag", help="Tag, by which consumers can filter.")
@click.option("--key", "keys", multiple=True, help="Key, by which to find the message; may be repeated.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="User property; may be repeated."
)
@click.option("--queue", type=int, help="Queue to send to; without it, the broker picks one.")
@click.option("--priority", type=int, help="Priority, from 0, in a topic of type priority.")
@click.option("--lite-topic", help="Lite topic of the message, in a topic of type lite.")
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
    priority: int | None,
    lite_topic: str | None,
) -> None:
    """Send a message to TOPIC. If BODY is -, the body is read from the standard input.

    The message is visible at once, or delayed by one of --level, --delay and --at.
    """
    if [level, delay, at].count(None) < 2:
        raise click.UsageError("only one of --level, --delay and --at can be given")
    options = given(
        delay_level=level,
        delay=delay,
        start_deliver_ms=None if at is None else parse_instant_ms(at, "start_deliver_ms"),
        tag=tag,
        keys=keys or None,
        properties=dict(map(_name_and_value, properties)) or None,
        queue_id=queue,
        priority=priority,
        lite_topic=lite_topic,
    )
    content = sys.stdin.buffer.read() if body == "-" else body
    sent = broker.send(topic, content, **options)
    output.show(sent, _describe_sent(sent, lite_topic))
    if level is not None and level != sent["delay_level"]:
        click.echo(f"Note: --level {level} counts as {_describe_level(sent['delay_level'])}", err=True)
    if at is not None and sent["due_ms"] is None:
        why = "has passed" if options["start_deliver_ms"] <= wall_us() // US_PER_MS else "is too far ahead"
        click.echo(f"Note: --at {at} {why}: the message is delivered at once", err=True)


@click.command(
    epilog=examples(
        "receive orders --group billing --wait 10s",
        "receive orders --group billing --max 32 --filter 'paid || refunded'",
        "receive orders --group audit --sql 'price > 10' --no-ack --json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--group", required=True, shell_complete=complete_groups, help="Consumer group.")
@click.option(
    "--max", "max_messages", type=int, default=1, show_default=True, help="Largest number of messages."
)
@click.option("--wait", default="0s", show_default=True, help="Longest wait for the first message.")
@click.option(
    "--no-ack", is_flag=True, help="Do not acknowledge the messages, which are visible again after 30s."
)
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
    """Receive messages of TOPIC for a consumer group, print them, and acknowledge them.

    Without --wait, the topic must exist.
    """
    if parse_duration_us(wait, "wait") == 0:
        _check_topic(broker, topic)
    messages = broker.receive(topic, group=group, max_messages=max_messages, wait=wait, tags=tags, sql=sql)
    found = Table(
        ("stored", "message", "tag", "keys", ">attempt", "body"),
        map(_received_row, messages),
        least=("attempt", "keys", "tag", "stored"),
        folded="body",
    )
    nothing = f"nothing to receive from {topic} for group {group}"
    hint = [] if messages else _standing_clock(broker, topic, group)
    output.show({"messages": messages}, found if messages else nothing, *hint)
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
@click.argument("topic", shell_complete=complete_topics)
@click.option("--count", type=int, default=1, show_default=True, help="Number of messages to wait for.")
@click.option("--wait", default="5s", show_default=True, help="Longest wait, in real time.")
@click.option("--sent", is_flag=True, help="Wait until the messages are sent, delayed or not.")
@click.option(
    "--acknowledged-by",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Wait until this group has acknowledged the messages.",
)
@click.option("--dead", is_flag=True, help="Wait until the messages are dead letters.")
@click.option("--tag", help="Only messages with this tag.")
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="Only messages with this property."
)
@click.option("--body", help="Only messages with this text as their body.")
@click.option(
    "--json-path",
    "paths",
    metavar="PATH=JSON",
    multiple=True,
    help="Only messages whose body has this value at this path, such as '$.order.id=7'.",
)
@click.option(
    "--advance",
    metavar="DURATION",
    help="While waiting, move the clock to each due time and retry of the messages, by this much at most.",
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
    advance: str | None,
) -> None:
    """Wait until messages are delivered to TOPIC, counted since it was created or reset.

    A delayed message counts once it is delivered. If the messages do not come in time, the most similar
    messages are shown, and the exit code is 4.
    """
    if [sent, dead, acknowledged_by is not None].count(True) > 1:
        raise click.UsageError("only one of --sent, --acknowledged-by and --dead can be given")
    if sent and advance is not None:
        raise click.UsageError("--advance has no effect with --sent")
    like = given(
        tag=tag,
        key=key,
        properties=dict(map(_name_and_value, properties)) or None,
        body=body,
        json_path=dict(map(_path_and_value, paths)) or None,
    )
    in_time = like | given(advance=advance)
    if sent:
        stage, found = "sent", broker.wait_sent(topic, count, wait=wait, **like)
    elif acknowledged_by is not None:
        found = broker.wait_acknowledged(topic, count, group=acknowledged_by, wait=wait, **in_time)
        stage = "acknowledged"
    elif dead:
        stage, found = "dead", broker.wait_dead(topic, count, wait=wait, **in_time)
    else:
        stage, found = "delivered", broker.wait_delivered(topic, count, wait=wait, **in_time)
    there, wanted = f"{found[stage]} of {count} messages", ""
    if found[stage] > count:
        there, wanted = f"{found[stage]} messages", f" (wanted {count})"
    if stage == "delivered":
        said = f"topic {topic} has received {there}{wanted}"
    else:
        said = f"{there} of topic {topic} are {stage}{wanted}"
    if found["reached"] and found["moves"]:
        said += f"; the clock was moved by {format_duration(found['moved_ms'] * US_PER_MS)}"
    output.show(found, said, *([] if found["reached"] else [found["explanation"]]))
    if not found["reached"]:
        raise click.exceptions.Exit(Exit.NOTHING)


def _check_topic(broker: BlockingClient, name: str) -> None:
    """Raise Failure for an unknown topic, which a receive would create."""
    known = [topic["name"] for topic in broker.topics()]
    if name and name not in known:
        meant = suggestion_for(name, known)
        hint = f"; did you mean {meant}?" if meant else ""
        raise Failure(f"topic {name} does not exist{hint}", Exit.NOTHING)


def _standing_clock(broker: BlockingClient, topic: str, group: str) -> list[str]:
    """Note that the manual clock was never moved, if a delayed message for the group is not yet due."""
    clock = broker.clock()
    if clock["mode"] != "manual" or clock["moved"]:
        return []
    topics = {queue["topic"] for queue in broker.group(group)["queues"] if queue["retrying"]} | {topic}
    pending = [message for one in sorted(topics) for message in _pending(broker, one)]
    dues = [message["due_ms"] for message in pending if message["due_ms"] > clock["now_ms"]]
    if not dues:
        return []
    due = instant(min(dues), clock["now_ms"])
    return [f"the clock is manual and was not moved; {len(dues)} delayed for the group, the next due {due}"]


def _pending(broker: BlockingClient, topic: str) -> list[JsonObject]:
    """Return up to 1,000 pending messages of the topic; large bodies take several pages."""
    found: list[JsonObject] = []
    after: int | None = None
    while True:
        page = broker.delayed(topic=topic, after=after, max_messages=1_000 - len(found))
        found += page["messages"]
        after = page["next_after"]
        if after is None or len(found) >= 1_000:
            return found


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
        return path, value  # text needs no JSON quotes, which a shell would remove


def _describe_sent(sent: JsonObject, lite_topic: str | None) -> str:
    queue = f"queue {sent['queue_id']}" if lite_topic is None else f"lite topic {lite_topic}"
    where = f"{sent['message_id']} → {sent['topic']} {queue}"
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


@click.command(epilog=examples("seed orders-waiting.toml", "seed orders.csv --json", "seed - --format jsonl"))
@click.argument("file")
@click.option(
    "--format",
    "given_format",
    type=click.Choice(list(FORMATS)),
    help="Format of FILE; by default that of its ending: .toml, .jsonl or .csv.",
)
@with_broker
def seed(broker: BlockingClient, output: Output, file: str, given_format: str | None) -> None:
    """Store the messages of FILE, with their past: when they were sent, and which groups have consumed them.

    All are stored, or none. If FILE is -, it is read from the standard input. docs/seeds.md describes the
    fields.
    """
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"FILE is {file!r}; allowed: a readable file in UTF-8 ({reason})") from None
    name = "standard input" if file == "-" else file
    seeded = broker.seed_text(text, given_format or format_of(name), name=name)
    pending, retries, dead = (seeded[name] for name in ("pending", "retries", "dead_letters"))
    parts = [f"{pending:,} pending"] if pending else []
    parts += [f"{retries:,} to be retried"] if retries else []
    parts += [counted(dead, "dead letter")] if dead else []
    stored = f"stored {counted(len(seeded['message_ids']), 'message')}"
    output.show(seeded, f"{stored}: {', '.join(parts)}" if parts else stored)
