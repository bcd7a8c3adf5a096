"""``mocketmq clients`` and ``mocketmq client``, which list connected clients and inspect one client."""

import json

import click

from mocketmq.cli.completion import complete_groups
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import GroupWithDefault, examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.cli.text import harmless
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient

_TYPES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}


@click.group(cls=GroupWithDefault, default="ls", epilog=examples("clients"))
def clients() -> None:
    """List the connected RocketMQ clients."""


@clients.command("ls", epilog=examples("clients ls"))
@with_broker
def list_clients(broker: BlockingClient, output: Output) -> None:
    """List the connected RocketMQ clients: a line for each of their groups, with its subscriptions."""
    found = broker.clients()
    columns = ("client", "address", "door", "language", "version", "group", "as", "subscriptions", ">lag")
    rows: list[tuple[object, ...]] = []
    for client in found:
        who = tuple(client[name] for name in ("client_id", "address", "door", "language", "version"))
        rows += [(*who, group, "producer", None, None) for group in client["producer_groups"]]
        rows += [
            (*who, one["group"], _role(one), _subscriptions(one), one["lag"])
            for one in client["consumer_groups"]
        ]
        if not client["producer_groups"] and not client["consumer_groups"]:
            rows.append((*who, *[None] * 4))
    least = ("version", "language", "door", "address", "as", "subscriptions")
    shown = Table(columns, rows, least=least, cut=("client", "group"), folded="subscriptions")
    output.show({"clients": found}, shown if found else "no clients")


@click.command(
    epilog=examples(
        "client a@42 --group shop",
        "client a@42 --group shop --consume A53FE6E206FD1A204474F20000000000",
        "client a@42 --reconnect",
    )
)
@click.argument("client_id")
@click.option("--group", shell_complete=complete_groups, help="Consumer group.")
@click.option(
    "--consume", metavar="MESSAGE_ID", help="Have the client consume this message now, and show the result."
)
@click.option(
    "--reconnect", is_flag=True, help="Tell the client to reconnect; only gRPC clients support this."
)
@with_broker
def client(
    broker: BlockingClient,
    output: Output,
    client_id: str,
    group: str | None,
    consume: str | None,
    reconnect: bool,
) -> None:
    """Show the queues and rates of the consumer CLIENT_ID, or have it consume a message, or reconnect.

    The message may have been consumed before. Offsets do not change.
    """
    if group is None:
        if not reconnect or consume is not None:
            raise click.UsageError("give --group, or --reconnect alone")
        told = broker.reconnect(client_id)
        output.show(told, f"told to reconnect; connections: {told['connections']}")
        return
    if reconnect:
        raise click.UsageError("--reconnect and --group cannot be combined: a client reconnects as a whole")
    if consume is not None:
        done = broker.consume(client_id, consume, group=group)
        remark = f": {done['remark']}" if done["remark"] else ""
        output.show(done, harmless(f"{done['result']}{remark}"))
        return
    info = broker.running_info(client_id, group=group)
    queues = [
        (*_queue(key), *map(told.get, _OF_QUEUE), _yes_or_no(told.get("locked")))
        for key, told in _table(info, "mqTable")
    ]
    topics = [(topic, *map(told.get, _OF_TOPIC)) for topic, told in _table(info, "statusTable")]
    parts: list[Table | str] = [
        Table(_QUEUE_COLUMNS, queues, least=("locked", "cached"), cut=("topic",)) if queues else "no queues"
    ]
    if topics:
        least = ("failed in 1h", "pulled/s", "takes ms")
        parts.append(Table(_TOPIC_COLUMNS, topics, least=least, cut=("topic",)))
    output.show(info, *parts)


_QUEUE_COLUMNS = ("topic", ">queue", ">committed", ">cached", "locked")
_TOPIC_COLUMNS = ("topic", ">pulled/s", ">consumed/s", ">failed/s", ">failed in 1h", ">takes ms")
_OF_QUEUE = ("commitOffset", "cachedMsgCount")
_OF_TOPIC = ("pullTPS", "consumeOKTPS", "consumeFailedTPS", "consumeFailedMsgs", "consumeRT")


def _table(info: JsonObject, name: str) -> list[tuple[str, JsonObject]]:
    found = info.get(name)
    return [(key, told) for key, told in found.items() if isinstance(told, dict)] if found else []


def _queue(key: str) -> tuple[object, object]:
    """Read a queue's topic and number from a JSON key, including keys in the C++ client's form."""
    try:
        queue = json.loads(key)
        return queue["topic"], queue["queueId"]
    except (ValueError, TypeError, KeyError):
        return key, None


def _yes_or_no(told: object) -> str | None:
    if not isinstance(told, bool):
        return None
    return "yes" if told else "no"


def _role(consuming: JsonObject) -> str:
    kind = _TYPES.get(consuming["consume_type"]) or str(consuming["consume_type"])
    return f"{kind}, broadcast" if consuming["message_model"] == "BROADCASTING" else kind


def _subscriptions(consuming: JsonObject) -> str:
    """Format the topics with their filters, without the retry topic, which every push consumer has."""
    retry_topic = f"%RETRY%{consuming['group']}"
    return "  ".join(
        f"{each['topic']}:{each['expression']}"
        for each in consuming["subscriptions"]
        if each["topic"] != retry_topic
    )
