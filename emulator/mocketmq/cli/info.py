"""``mocketmq info``, which shows a broker's addresses, version, settings and limits."""

from collections.abc import Mapping
from typing import Any

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration

_DOORS = {
    "http": "JSON API",
    "aliyun": "Aliyun's HTTP protocol",
    "namesrv": "name server",
    "broker": "broker",
    "vip": "broker's VIP channel",
    "grpc": "gRPC",
}


@click.command(epilog=examples("info", "info --json"))
@with_broker
def info(broker: BlockingClient, output: Output) -> None:
    """Show the broker's addresses, version, settings and limits."""
    found = broker.info()
    opened: Mapping[str, Any] = found["doors"]
    doors = [(title, opened[name]["address"]) for name, title in _DOORS.items() if name in opened]
    for number, port in enumerate(opened.get("name_servers", [])[1:], 2):
        doors.append((f"name server {number}", port["address"]))
    for name, ports in opened.get("brokers", {}).items():
        doors.append((name, " ".join(port["address"] for port in ports.values())))
    settings = [
        ("version", found["version"]),
        ("up for", format_duration(found["uptime_ms"] // 1_000 * 1_000 * US_PER_MS)),
        ("clock", found["clock"]),
        ("profile", found["profile"]),
        ("levels", found["levels"]),
        ("data", found["data"]),
        ("durability", found["durability"]),
        ("longest wait", format_duration(found["max_wait_ms"] * US_PER_MS)),
        ("longest long poll", format_duration(found["max_long_poll_ms"] * US_PER_MS)),
        ("largest message", f"{found['max_message_bytes']} bytes"),
    ]
    output.show(dict(found), Table(("of the broker", "value"), [*doors, *settings]))
