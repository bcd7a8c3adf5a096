"""``mocketmq snapshot``, which saves, restores, lists, compares and deletes snapshots."""

import click

from mocketmq.cli.completion import complete_snapshots
from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.clock import US_PER_MS
from mocketmq.instant import format_instant


@click.group(epilog=examples("snapshot save orders-waiting", "snapshot restore orders-waiting"))
def snapshot() -> None:
    """Save the broker's whole state under a name, restore it, and show the changes between two snapshots."""


@snapshot.command(epilog=examples("snapshot save orders-waiting", "snapshot save orders-waiting --replace"))
@click.argument("name")
@click.option("--replace", is_flag=True, help="Replace a snapshot of this name.")
@with_broker
def save(broker: BlockingClient, output: Output, name: str, replace: bool) -> None:
    """Save messages, offsets, transactions, faults, topics, groups and the clock under NAME."""
    output.show(saved := broker.save_snapshot(name, replace=replace), f"saved {_summary(saved)}")


@snapshot.command(epilog=examples("snapshot restore orders-waiting"))
@click.argument("name", shell_complete=complete_snapshots)
@with_broker
def restore(broker: BlockingClient, output: Output, name: str) -> None:
    """Restore the snapshot NAME. Clients stay connected, and continue with its state."""
    restored = broker.restore_snapshot(name)
    output.show(restored, f"restored {_summary(restored['snapshot'])}")


@snapshot.command("ls", epilog=examples("snapshot ls"))
@with_broker
def list_snapshots(broker: BlockingClient, output: Output) -> None:
    """List the snapshots, and the snapshot files that cannot be read."""
    found, damaged = broker.snapshots(), broker.damaged_snapshots()
    counts = ("messages", "pending", "bytes", "version")
    rows = [(each["name"], _time(each["clock_ms"]), *map(each.get, counts)) for each in found]
    table = Table(("name", "clock", ">messages", ">pending", ">bytes", "version"), rows, cut=("name",))
    reasons = [f"cannot read {each['name']}: {each['reason']}" for each in damaged]
    output.show({"snapshots": found, "damaged": damaged}, table if found else "no snapshots", *reasons)


@snapshot.command(epilog=examples("snapshot diff orders-waiting", "snapshot diff before after"))
@click.argument("name", shell_complete=complete_snapshots)
@click.argument("other", required=False, shell_complete=complete_snapshots)
@with_broker
def diff(broker: BlockingClient, output: Output, name: str, other: str | None) -> None:
    """Show the changes since the snapshot NAME, up to the snapshot OTHER or now."""
    found = broker.snapshot_differences(name, other)
    output.show({"differences": found}, *([each["text"] for each in found] or ["nothing happened"]))


@snapshot.command(epilog=examples("snapshot rm orders-waiting"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_snapshots)
@with_broker
def rm(broker: BlockingClient, output: Output, names: tuple[str, ...]) -> None:
    """Delete snapshots."""
    deleted = [broker.delete_snapshot(name) for name in names]
    output.show({"snapshots": deleted}, *(f"deleted {each['name']}" for each in deleted))


def _summary(one: JsonObject) -> str:
    counts = f"{one['messages']} records, {one['pending']} messages pending"
    return f"{one['name']}: {counts}, the clock at {_time(one['clock_ms'])}"


def _time(instant_ms: int) -> str:
    return format_instant(instant_ms * US_PER_MS)
