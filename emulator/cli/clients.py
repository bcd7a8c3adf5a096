"""``mocketmq clients``."""

import click

from emulator.cli.connection import with_broker
from emulator.cli.screen import Screen, table
from emulator.client import Answer, Client

_TYPES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}


@click.command()
@with_broker
async def clients(broker: Client, screen: Screen) -> None:
    """List the RocketMQ clients that are connected, a line for each group, with what it subscribes to."""
    found = await broker.clients()
    columns = ("client", "address", "language", "version", "group", "as", "subscriptions", ">lag")
    rows: list[tuple[object, ...]] = []
    for client in found:
        who = (client["client_id"], client["address"], client["language"], client["version"])
        rows += [(*who, group, "producer", None, None) for group in client["producer_groups"]]
        rows += [
            (*who, one["group"], _role(one), _subscriptions(one), one["lag"])
            for one in client["consumer_groups"]
        ]
        if not client["producer_groups"] and not client["consumer_groups"]:
            rows.append((*who, *[None] * 4))
    screen.show({"clients": found}, table(columns, rows) if found else "no clients")


def _role(consuming: Answer) -> str:
    kind = _TYPES.get(consuming["consume_type"]) or str(consuming["consume_type"])
    return f"{kind}, broadcast" if consuming["message_model"] == "BROADCASTING" else kind


def _subscriptions(consuming: Answer) -> str:
    return "  ".join(f"{each['topic']}:{each['expression']}" for each in consuming["subscriptions"])
