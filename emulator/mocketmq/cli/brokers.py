"""``mocketmq brokers``, which lists a cluster's brokers and changes their conditions."""

from typing import Any, Literal

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
    """List the cluster's brokers; crash them, cut them off, start them again."""


@brokers.command("ls", epilog=examples("brokers ls"))
@with_broker
def ls(broker: BlockingClient, output: Output) -> None:
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
    help="Lose all that the broker has stored in this time before, such as 200ms, or what its slave does not"
    " have. By default, the setting crash_loses says it.",
)
@with_broker
def crash(broker: BlockingClient, output: Output, name: str, loses: str | None) -> None:
    """Crash a broker: its connections end, and routes name it for another 120 s by the broker's clock."""
    found = broker.crash_broker(name, loses=loses)
    _show(output, found, _lost(found))


@brokers.command("shutdown", epilog=examples("brokers shutdown broker-b"))
@_NAME
@with_broker
def shutdown(broker: BlockingClient, output: Output, name: str) -> None:
    """Shut a broker down: it leaves all routes at once, and its connections end."""
    _show(output, broker.shut_down_broker(name))


@brokers.command("promote", epilog=examples("brokers promote broker-b"))
@_NAME
@with_broker
def promote(broker: BlockingClient, output: Output, name: str) -> None:
    """Make the slave of a broker its master. Messages that the slave does not have are lost.

    A broker that runs becomes the slave; one that is down or cut off does when it starts.
    """
    found = broker.promote_slave(name)
    _show(output, found, _lost(found))


@brokers.command("start", epilog=examples("brokers start broker-b"))
@_NAME
@with_broker
def start(broker: BlockingClient, output: Output, name: str) -> None:
    """Start a broker again on its port, and deliver the messages that became due while it was down."""
    _show(output, broker.start_broker(name))


@brokers.command("wipe", epilog=examples("brokers wipe broker-b"))
@_NAME
@with_broker
def wipe(broker: BlockingClient, output: Output, name: str) -> None:
    """Delete all messages and offsets of a broker that is down, as if its disk were lost."""
    _show(output, broker.wipe_broker(name))


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
    _show(output, broker.cut_off_broker(name, side))


@brokers.command("reconnect", epilog=examples("brokers reconnect broker-b"))
@_NAME
@with_broker
def reconnect(broker: BlockingClient, output: Output, name: str) -> None:
    """Reconnect a broker that is cut off."""
    _show(output, broker.reconnect_broker(name))


@brokers.command("read-only", epilog=examples("brokers read-only broker-b"))
@_NAME
@with_broker
def read_only(broker: BlockingClient, output: Output, name: str) -> None:
    """Make a broker refuse sends. Routes say so at once."""
    _show(output, broker.set_broker_read_only(name))


@brokers.command("writable", epilog=examples("brokers writable broker-b"))
@_NAME
@with_broker
def writable(broker: BlockingClient, output: Output, name: str) -> None:
    """Make a read-only broker take sends again."""
    _show(output, broker.set_broker_read_only(name, read_only=False))


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


def _show(output: Output, found: dict[str, Any], more: str = "") -> None:
    routes = "in routes" if found["in_routes"] else "not in routes"
    output.show(found, f"{found['name']} is {_condition(found)}, {routes}{more}")
