"""``mocketmq info`` and ``mocketmq healthcheck``: what a broker is, and whether it is ready."""

from collections.abc import Mapping
from typing import Any

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.connection import ask_broker, with_broker
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.answer import BrokerError
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
_PATIENCE_S = 2.0


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
        ("compiled", "yes" if found["compiled"] else "no"),
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


@click.command(epilog=examples("healthcheck", "healthcheck --url http://broker:9877 --json"))
@click.option(
    "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def healthcheck(url: str, as_json: bool) -> None:
    """Check that the broker is ready: exit code 0 if it is, 3 if not. It needs no token."""
    ask_broker(url, None, lambda broker: _check(broker, Output(as_json)), answer_s=_PATIENCE_S)


def _check(broker: BlockingClient, output: Output) -> None:
    try:
        output.show(broker.ready(), "ready")
    except BrokerError as error:
        raise Failure(f"the broker at {broker.url} is not ready: {error}", Exit.NOT_READY) from error
