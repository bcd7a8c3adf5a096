"""``mocketmq peek``, ``find``, ``message``, ``events`` and ``leaks``: look at messages and what happened."""

from collections.abc import Iterator

import click

from mocketmq.cli.completion import complete_groups, complete_topics
from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit
from mocketmq.cli.options import examples, filter_options
from mocketmq.cli.output import Output, instant
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject, body_of
from mocketmq.client.blocking import BlockingClient
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration

_MOST = click.IntRange(min=1)
_PAGE = 256


@click.command(epilog=examples("peek orders", "peek orders --offset -10", "peek %DLQ%billing --json"))
@click.argument("topic", shell_complete=complete_topics)
@click.option("--queue", type=int, help="Only this queue.")
@click.option("--lite-topic", metavar="NAME", help="A lite topic of TOPIC, instead of its queues.")
@click.option(
    "--offset",
    type=int,
    default=0,
    show_default=True,
    help="Begin with this offset of each queue; -10 begins ten before its end.",
)
@click.option(
    "--max", "max_messages", type=_MOST, default=32, show_default=True, help="Largest number of messages."
)
@filter_options
@with_broker
def peek(
    broker: BlockingClient,
    output: Output,
    topic: str,
    queue: int | None,
    lite_topic: str | None,
    offset: int,
    max_messages: int,
    tags: str,
    sql: str | None,
) -> None:
    """Show messages of TOPIC without consuming them, oldest first.

    A negative --offset shows the newest messages.
    """
    if queue is not None and lite_topic is not None:
        raise click.UsageError("--queue and --lite-topic cannot be combined")
    shown = broker.topic(topic)
    ends = {each["queue_id"]: (each["min_offset"], each["max_offset"]) for each in shown["queues"]}
    if lite_topic is not None:
        begin = broker.browse(topic, lite_topic=lite_topic, max_messages=1)
        ends = {0: (begin["min_offset"], begin["max_offset"])}
    found: list[JsonObject] = []
    for number in ends if queue is None else [queue]:
        first, end = ends.get(number, (0, 1))  # for an unknown queue, ask the broker, whose error is clear
        at, last = max(first, end + offset if offset < 0 else offset), len(found) + max_messages
        while at < end and len(found) < last:
            size = min(last - len(found), _PAGE)
            page = broker.browse(
                topic, number, lite_topic=lite_topic, offset=at, max_messages=size, tags=tags, sql=sql
            )
            found += page["messages"]
            at = page["next_offset"]
    found.sort(key=lambda each: each["log_offset"])
    found = found[-max_messages:] if offset < 0 else found[:max_messages]
    lites = (
        "" if lite_topic or not shown["lite_topics"] else "; choose one of its lite topics by --lite-topic"
    )
    _show(output, found, f"no messages to show in {topic}{lites}")


@click.command(epilog=examples("find 7", "find 7 --topic orders --json"))
@click.argument("key")
@click.option("--topic", shell_complete=complete_topics, help="Only messages of this topic.")
@click.option(
    "--max", "max_messages", type=int, default=64, show_default=True, help="Largest number of messages."
)
@with_broker
def find(broker: BlockingClient, output: Output, key: str, topic: str | None, max_messages: int) -> None:
    """Find messages by one of their keys, oldest first.

    Once a delayed message is delivered, it is found twice: parked, and in its topic.
    """
    found = broker.messages_by_key(key, topic=topic, max_messages=max_messages)
    _show(output, found, f"no message has the key {key}")


@click.command(epilog=examples("message A53FE6E206FD1A204474F20000000000"))
@click.argument("message_id", metavar="ID")
@with_broker
def message(broker: BlockingClient, output: Output, message_id: str) -> None:
    """Show the history of a message: when it was stored, due, delivered, received and acknowledged."""
    history = broker.message(message_id)
    events = Table(
        ("time", ">after", "what happened"), _life(history), least=("after",), folded="what happened"
    )
    trace_id = history["records"][0]["trace_id"]
    trace = f", trace {trace_id}" if trace_id else ""
    output.show(history, f"message {history['message_id']} is {_state(history)}{trace}", events)


def _state(history: JsonObject) -> str:
    """Return the state, with the groups that have a dead letter, or with what groups have consumed."""
    groups = sorted({event["group"] for event in history["life"] if event["kind"] == "dead"})
    state = str(history["state"])
    if state == "dead" and groups:
        return f"{state} at {', '.join(groups)}"
    return f"{state}, {consumption}" if (consumption := history["consumption"]) else state


def _life(history: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Return each event's instant, the time since the first event, and the event's text."""
    for event in history["life"]:
        after = format_duration((event["at_ms"] - history["life"][0]["at_ms"]) * US_PER_MS)
        text = event["text"]
        if event["kind"] == "delivered" and event["late_us"] is not None:
            text += f", {format_duration(event['late_us'])} late" if event["late_us"] > 0 else ", on time"
            text += f", by fault {event['fault']}" if event["fault"] else ""
        yield instant(event["at_ms"]), f"+{after}", text


def _show(output: Output, found: list[JsonObject], nothing: str) -> None:
    columns = ("stored", "message", "topic", ">queue", ">offset", "due", "tag", "keys", "body")
    least = ("offset", "queue", "due", "keys", "tag", "topic", "stored")
    rows = (
        (
            instant(each["store_ms"]),
            each["message_id"],
            each["topic"],
            each["queue_id"] if each["lite_topic"] is None else each["lite_topic"],
            each["queue_offset"],
            instant(each["due_ms"]),
            each["tag"],
            " ".join(each["keys"]),
            body_of(each).decode(errors="replace"),
        )
        for each in found
    )
    output.show({"messages": found}, Table(columns, rows, least=least, folded="body") if found else nothing)
    if not found:
        raise click.exceptions.Exit(Exit.NOTHING)


@click.command(epilog=examples("events", "events --max 20"))
@click.option("--max", "most", type=int, default=200, show_default=True, help="Only the newest events.")
@with_broker
def events(broker: BlockingClient, output: Output, most: int) -> None:
    """Show the events since the last reset: messages, injected faults, moves of the clock.

    Times are on the broker's clock. The newest event comes last.
    """
    found = broker.events(max_events=most)
    rows = [(instant(each["at_ms"]), each["text"]) for each in found]
    shown = Table(("time", "event"), rows, folded="event")
    output.show({"events": found}, shown if found else "nothing has happened since the last reset")


@click.command(epilog=examples("leaks", "leaks --group billing --wait 6s"))
@click.option("--group", shell_complete=complete_groups, help="Only leaks of this consumer group.")
@click.option("--max", "most", type=int, default=100, show_default=True, help="Only the newest leaks.")
@click.option(
    "--wait",
    default="0",
    show_default=True,
    metavar="DURATION",
    help="Longest wait until there are none; RocketMQ's clients commit offsets every 5s.",
)
@with_broker
def leaks(broker: BlockingClient, output: Output, group: str | None, most: int, wait: str) -> None:
    """List messages that consumer groups have received, or will receive, and have not acknowledged.

    The exit code is 1 if there are any.
    """
    found = broker.leaks(group, wait=wait, max_leaks=most)
    output.show({"leaks": found}, *([each["text"] for each in found] or ["no leaks"]))
    if found:
        raise click.exceptions.Exit(Exit.REFUSED)
