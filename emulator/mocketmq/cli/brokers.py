"""``mocketmq brokers``, which lists a cluster's brokers, crashes them, shuts them down and starts them."""

from typing import Any

import click

from mocketmq.cli.completion import complete_brokers
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient

_NAME = click.argument("name", metavar="BROKER", shell_complete=complete_brokers)


@click.group(epilog=examples("brokers ls", "brokers crash broker-b"))
def brokers() -> None:
    """List the cluster's brokers; crash them, shut them down, start them again."""


@brokers.command("ls", epilog=examples("brokers ls"))
@with_broker
def ls(broker: BlockingClient, output: Output) -> None:
    """List the brokers: their states, ports, and due messages that wait for them."""
    found = broker.brokers()
    rows = [
        (each["name"], each["state"], "yes" if each["in_routes"] else "no", each["port"], each["held"])
        for each in found
    ]
    output.show({"brokers": found}, Table(("name", "state", "in routes", ">port", ">held"), rows))


@brokers.command("crash", epilog=examples("brokers crash broker-b"))
@_NAME
@with_broker
def crash(broker: BlockingClient, output: Output, name: str) -> None:
    """Crash a broker: its connections end, and routes name it for another 120 s by the broker's clock."""
    _show(output, broker.crash_broker(name))


@brokers.command("shutdown", epilog=examples("brokers shutdown broker-b"))
@_NAME
@with_broker
def shutdown(broker: BlockingClient, output: Output, name: str) -> None:
    """Shut a broker down: it leaves all routes at once, and its connections end."""
    _show(output, broker.shut_down_broker(name))


@brokers.command("start", epilog=examples("brokers start broker-b"))
@_NAME
@with_broker
def start(broker: BlockingClient, output: Output, name: str) -> None:
    """Start a broker again on its port, and deliver the messages that became due while it was down."""
    _show(output, broker.start_broker(name))


def _show(output: Output, found: dict[str, Any]) -> None:
    routes = "in routes" if found["in_routes"] else "not in routes"
    output.show(found, f"{found['name']} is {found['state']}, {routes}")
