"""``mocketmq brokers`` and ``mocketmq name-servers``, which list a cluster's parts and make them fail."""

from typing import Any, Literal

import click

from mocketmq.cli.completion import complete_brokers
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.blocking import BlockingClient

_NAME = click.argument("name", metavar="BROKER", shell_complete=complete_brokers)
_NUMBER = click.argument("number", type=click.IntRange(1, 8))


@click.group(epilog=examples("brokers ls", "brokers crash broker-b"))
def brokers() -> None:
    """List the cluster's brokers; crash them, cut them off, start them again."""


@brokers.command("ls", epilog=examples("brokers ls"))
@with_broker
def list_brokers(broker: BlockingClient, output: Output) -> None:
    """List the brokers: their states, ports, and due messages that wait for them."""
    found = broker.brokers()
    rows = [
        (
            *(each["name"], _condition(each), "yes" if each["in_routes"] else "no"),
            *(each["port"], each["slave_port"], each["held"]),
        )
        for each in found
    ]
    output.show({"brokers": found}, Table(("name", "state", "in routes", ">port", ">slave", ">held"), rows))


@brokers.command("crash", epilog=examples("brokers crash broker-b", "brokers crash broker-b --loses 200ms"))
@_NAME
@click.option(
    "--loses",
    metavar="DURATION|unreplicated|nothing",
    help="Lose the messages that the broker stored in this time before the crash, such as 200ms, or those not"
    " yet replicated to its slave. By default, the setting crash_loses decides.",
)
@with_broker
def crash(broker: BlockingClient, output: Output, name: str, loses: str | None) -> None:
    """Crash a broker: its connections end, and routes name it for another 120 s by the broker's clock."""
    found = broker.crash_broker(name, loses=loses)
    _show_broker(output, found, _lost(found))


@brokers.command("shutdown", epilog=examples("brokers shutdown broker-b"))
@_NAME
@with_broker
def shutdown(broker: BlockingClient, output: Output, name: str) -> None:
    """Shut a broker down: it leaves all routes at once, and its connections end."""
    _show_broker(output, broker.shut_down_broker(name))


@brokers.command("promote", epilog=examples("brokers promote broker-b"))
@_NAME
@with_broker
def promote(broker: BlockingClient, output: Output, name: str) -> None:
    """Make the slave of a broker its master. Messages that the slave does not have are lost.

    The old master becomes the slave, at once if it runs, or when it starts again if it is down or cut off.
    """
    found = broker.promote_slave(name)
    _show_broker(output, found, _lost(found))


@brokers.command("start", epilog=examples("brokers start broker-b"))
@_NAME
@with_broker
def start_broker(broker: BlockingClient, output: Output, name: str) -> None:
    """Start a broker again on its port, and deliver the messages that became due while it was down."""
    _show_broker(output, broker.start_broker(name))


@brokers.command("wipe", epilog=examples("brokers wipe broker-b"))
@_NAME
@with_broker
def wipe(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete all messages and offsets of a broker that is down, as if its disk were lost."""
    _show_broker(output, broker.wipe_broker(name))


@brokers.command("cut-off", epilog=examples("brokers cut-off broker-b clients"))
@_NAME
@click.argument("side", type=click.Choice(["clients", "name-servers"]))
@with_broker
def cut_off(
    broker: BlockingClient, output: Output, name: str, side: Literal["clients", "name-servers"]
) -> None:
    """Cut a running broker off.

    From clients: they get no answer. From name-servers: routes name it for another 120 s by the broker's
    clock.
    """
    _show_broker(output, broker.cut_off_broker(name, side))


@brokers.command("reconnect", epilog=examples("brokers reconnect broker-b"))
@_NAME
@with_broker
def reconnect(broker: BlockingClient, output: Output, name: str) -> None:
    """Reconnect a broker that is cut off."""
    _show_broker(output, broker.reconnect_broker(name))


@brokers.command("read-only", epilog=examples("brokers read-only broker-b"))
@_NAME
@with_broker
def read_only(broker: BlockingClient, output: Output, name: str) -> None:
    """Make a broker refuse sends. Its routes change at once."""
    _show_broker(output, broker.set_broker_read_only(name))


@brokers.command("writable", epilog=examples("brokers writable broker-b"))
@_NAME
@with_broker
def writable(broker: BlockingClient, output: Output, name: str) -> None:
    """Make a read-only broker accept sends again."""
    _show_broker(output, broker.set_broker_read_only(name, read_only=False))


def _condition(found: dict[str, Any]) -> str:
    sides = [f"cut off from {side}" for side in found["cut_off_from"]]
    more = (
        ("read-only", found["read_only"]),
        ("slave promoted", found["promoted"]),
        ("slave down", found["slave_state"] == "down"),
    )
    return ", ".join((found["state"], *sides, *(word for word, applies in more if applies)))


def _lost(found: dict[str, Any]) -> str:
    return f"; messages lost: {found['lost']}" if found["lost"] else ""


def _show_broker(output: Output, found: dict[str, Any], more: str = "") -> None:
    routes = "in routes" if found["in_routes"] else "not in routes"
    output.show(found, f"{found['name']} is {_condition(found)}, {routes}{more}")


@click.group("name-servers", epilog=examples("name-servers ls", "name-servers hide 2 broker-b"))
def name_servers() -> None:
    """List the cluster's name servers; stop them, or falsify their lists of brokers."""


@name_servers.command("ls", epilog=examples("name-servers ls"))
@with_broker
def list_name_servers(broker: BlockingClient, output: Output) -> None:
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
    _show_name_server(output, broker.stop_name_server(number))


@name_servers.command("start", epilog=examples("name-servers start 2"))
@_NUMBER
@with_broker
def start_name_server(broker: BlockingClient, output: Output, number: int) -> None:
    """Start a name server again on its port."""
    _show_name_server(output, broker.start_name_server(number))


@name_servers.command("freeze", epilog=examples("name-servers freeze 2"))
@_NUMBER
@with_broker
def freeze(broker: BlockingClient, output: Output, number: int) -> None:
    """Freeze a name server: its list of brokers no longer changes."""
    _show_name_server(output, broker.freeze_name_server(number))


@name_servers.command("hide", epilog=examples("name-servers hide 2 broker-b"))
@_NUMBER
@_NAME
@with_broker
def hide(broker: BlockingClient, output: Output, number: int, name: str) -> None:
    """Make a name server leave out a broker."""
    _show_name_server(output, broker.hide_broker(number, name))


@name_servers.command("keep", epilog=examples("name-servers keep 2 broker-b"))
@_NUMBER
@_NAME
@with_broker
def keep(broker: BlockingClient, output: Output, number: int, name: str) -> None:
    """Make a name server list a broker even while the broker is down."""
    _show_name_server(output, broker.keep_broker(number, name))


@name_servers.command("correct", epilog=examples("name-servers correct 2"))
@_NUMBER
@with_broker
def correct(broker: BlockingClient, output: Output, number: int) -> None:
    """Make a name server list all brokers correctly again."""
    _show_name_server(output, broker.correct_name_server(number))


def _errors(found: dict[str, Any]) -> str:
    return " ".join(
        f"{word} {name}" for word, key in (("hides", "hidden"), ("keeps", "kept")) for name in found[key]
    )


def _show_name_server(output: Output, found: dict[str, Any]) -> None:
    listed = ", ".join(found["brokers"]) or "no broker"
    output.show(found, f"name server {found['number']} is {found['state']} and lists {listed}")
