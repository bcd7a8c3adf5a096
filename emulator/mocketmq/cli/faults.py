"""``mocketmq faults``, which adds, lists and removes fault rules."""

from collections.abc import Iterable
from typing import Any

import click

from mocketmq.cli.completion import complete_fault_kinds, complete_faults
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient

_COUNTS = ("name", "do", "state", "matched", "fired", "held")


@click.group(epilog=examples("faults add refuse error=SYSTEM_BUSY operation=send next=3", "faults ls"))
def faults() -> None:
    """Inject faults; list and end fault rules."""


@faults.command(
    "add",
    epilog=examples(
        "faults add refuse error=SYSTEM_BUSY topic=orders next=3",
        "faults add late by='uniform(1s, 5s)' door=remoting",
        "faults add close stage=after probability=0.1 seed=7",
    ),
)
@click.argument("do", metavar="KIND", shell_complete=complete_fault_kinds)
@click.argument("fields", metavar="[FIELD=VALUE]...", nargs=-1)
@with_broker
def add(broker: BlockingClient, output: Output, do: str, fields: tuple[str, ...]) -> None:
    """Add a rule of this KIND.

    The fields are those of POST /v1/faults, and say where, when and how. If by= has several durations, each
    fault picks one at random.
    """
    rule: dict[str, Any] = {}
    for name, value in map(_field, fields):
        rule[name] = [*_listed(rule[name]), value] if name in rule else value
    fault = broker.add_fault(do, **rule)
    output.show(fault, f"added {fault['name']}: {_rule(fault)}")


def _field(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"{text!r} is not a field; allowed: <field>=<value>")
    if name in ("operation", "name", "broker", "topic", "group", "client"):
        return name, value
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else [value]


@faults.command("ls", epilog=examples("faults ls"))
@with_broker
def ls(broker: BlockingClient, output: Output) -> None:
    """List the rules, with the numbers of requests that matched and of faults that fired."""
    found = broker.faults()
    counts = ("matched", "fired", "held")
    rows = [(each["name"], each["state"], *map(each.get, counts), _rule(each)) for each in found]
    columns = ("name", "state", *(f">{count}" for count in counts), "rule")
    table = Table(columns, rows, cut=("name",), folded="rule")
    output.show({"faults": found}, table if found else "no faults")


@faults.command("rm", epilog=examples("faults rm fault-1", "faults rm --all"))
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_faults)
@click.option("--all", "every", is_flag=True, help="End every rule.")
@with_broker
def rm(broker: BlockingClient, output: Output, names: tuple[str, ...], every: bool) -> None:
    """End rules."""
    if bool(names) is every:
        raise click.UsageError("give names of faults, or --all")
    ended = broker.clear_faults() if every else [broker.delete_fault(name) for name in names]
    output.show({"faults": ended}, *(f"ended {each['name']} after {each['fired']} faults" for each in ended))


def _rule(fault: JsonObject) -> str:
    fields = (f"{name}={value}" for name, value in fault.items() if name not in _COUNTS)
    return " ".join((fault["do"], *fields))
