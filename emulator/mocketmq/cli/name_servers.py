"""``mocketmq name-servers``, which lists a cluster's name servers and makes them fail."""

from typing import Any

import click

from mocketmq.cli.completion import complete_brokers
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient

_NUMBER = click.argument("number", type=click.IntRange(1, 8))
_BROKER = click.argument("name", metavar="BROKER", shell_complete=complete_brokers)


@click.group("name-servers", epilog=examples("name-servers ls", "name-servers hide 2 broker-b"))
def name_servers() -> None:
    """List the cluster's name servers; stop them, make them wrong about brokers."""


@name_servers.command("ls", epilog=examples("name-servers ls"))
@with_broker
def ls(broker: BlockingClient, output: Output) -> None:
    """List the name servers: their states, ports, and the brokers that each lists."""
    found = broker.name_servers()
    rows = [
        (each["number"], each["state"], each["port"], " ".join(each["brokers"]), _errors(each))
        for each in found
    ]
    output.show({"name_servers": found}, Table((">number", "state", ">port", "brokers", "wrong"), rows))


@name_servers.command("stop", epilog=examples("name-servers stop 2"))
@_NUMBER
@with_broker
def stop(broker: BlockingClient, output: Output, number: int) -> None:
    """Stop a name server: its port closes, and its connections end."""
    _show(output, broker.stop_name_server(number))


@name_servers.command("start", epilog=examples("name-servers start 2"))
@_NUMBER
@with_broker
def start(broker: BlockingClient, output: Output, number: int) -> None:
    """Start a name server again on its port."""
    _show(output, broker.start_name_server(number))


@name_servers.command("freeze", epilog=examples("name-servers freeze 2"))
@_NUMBER
@with_broker
def freeze(broker: BlockingClient, output: Output, number: int) -> None:
    """Freeze a name server: its list of brokers no longer changes."""
    _show(output, broker.freeze_name_server(number))


@name_servers.command("hide", epilog=examples("name-servers hide 2 broker-b"))
@_NUMBER
@_BROKER
@with_broker
def hide(broker: BlockingClient, output: Output, number: int, name: str) -> None:
    """Make a name server leave out a broker."""
    _show(output, broker.hide_broker(number, name))


@name_servers.command("keep", epilog=examples("name-servers keep 2 broker-b"))
@_NUMBER
@_BROKER
@with_broker
def keep(broker: BlockingClient, output: Output, number: int, name: str) -> None:
    """Make a name server list a broker even while the broker is down."""
    _show(output, broker.keep_broker(number, name))


@name_servers.command("correct", epilog=examples("name-servers correct 2"))
@_NUMBER
@with_broker
def correct(broker: BlockingClient, output: Output, number: int) -> None:
    """Make a name server tell the truth again about all brokers."""
    _show(output, broker.correct_name_server(number))


def _errors(found: dict[str, Any]) -> str:
    return " ".join(
        f"{word} {name}" for word, key in (("hides", "hidden"), ("keeps", "kept")) for name in found[key]
    )


def _show(output: Output, found: dict[str, Any]) -> None:
    listed = ", ".join(found["brokers"]) or "no broker"
    output.show(found, f"name server {found['number']} is {found['state']} and lists {listed}")
