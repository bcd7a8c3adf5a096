"""The benchmarks by name."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import uvloop

from tests.bench import (
    bundle,
    commands,
    console,
    files,
    floods,
    grpc,
    grpc_upstream,
    herd,
    holds,
    http_sends,
    kits,
    lateness,
    mixes,
    moves,
    pending,
    plugin,
    priorities,
    remoting,
    reports,
    schemes,
    sends,
    snapshots,
    stalls,
    start,
    upstream,
    wire_lateness,
)
from tests.bench.figures import Figure
from tests.bench.growth import measuring as growth
from tests.bench.suite import measuring as suite
from tests.bench.suite import workers


class Bench(NamedTuple):
    """A benchmark. ``measure(quick)`` takes seconds if quick, otherwise about a minute."""

    title: str
    measure: Callable[[bool], Coroutine[Any, Any, list[Figure]]]


BENCHES = {
    "start": Bench("Start of an empty broker", start.measure),
    "start-grpc": Bench("Start of an empty broker with gRPC's port (floor: without)", start.with_grpc),
    "bundle": Bench("The bundle, as a folder and as one file (floor: the environment)", bundle.measure),
    "commands": Bench("Commands of the command line (floor: python -c pass)", commands.measure),
    "sends": Bench("Acknowledged sends, straight to the broker", sends.measure),
    "http": Bench("Acknowledged sends, through HTTP", http_sends.measure),
    "remoting": Bench("Acknowledged sends, through remoting", remoting.sends),
    "pulls": Bench("Pulls through remoting", remoting.pulls),
    "push": Bench("From send to push through remoting", remoting.latency),
    "wire-lateness": Bench("Lateness over the wire (floor: a bare loop)", wire_lateness.measure),
    "idle": Bench("Idle connections", remoting.idle),
    "grpc": Bench("Acknowledged sends, through gRPC (floor: an empty handler of grpclib)", grpc.sends),
    "grpc-receive": Bench("From send to receive through gRPC", grpc.latency),
    "grpc-idle": Bench("Idle gRPC clients", grpc.idle),
    "floods": Bench("Floods of HTTP/2 frames, and what they do to others", floods.measure),
    "stalls": Bench("Late deliveries over the wire, and what held each up", stalls.measure),
    "lateness": Bench("Lateness seen by a waiting consumer (floor: a bare loop)", lateness.measure),
    "herd": Bench("Herd: all due at one instant", herd.measure),
    "mixes": Bench("Mixes of all that becomes due", mixes.measure),
    "holds": Bench("Other requests during resets and snapshots with many pending", holds.measure),
    "moves": Bench("Clock moves and resets", moves.measure),
    "files": Bench("Second directories: acknowledged saves, straight to the broker", files.saves),
    "file-herd": Bench("Second directories: a herd in one second", files.herd),
    "file-pending": Bench("Second directories: many pending files", files.pending),
    "schemes": Bench("Delay schemes side by side", schemes.measure),
    "pending": Bench("Many pending messages", pending.measure),
    "growth": Bench("How cost grows with messages, topics and clients", growth.measure),
    "priorities": Bench("Receives by priority (floor: the same without)", priorities.measure),
    "plugin": Bench("Test runs with the pytest plugin (floor: a fixture that does nothing)", plugin.measure),
    "snapshots": Bench("Snapshots, and tests from one beside tests from seeds", snapshots.measure),
    "kits": Bench("Tests with each kit (floor: empty tests)", kits.measure),
    "console": Bench("The console: what an open page costs", console.measure),
    "suite": Bench("A suite of tests beside a real RocketMQ (floor)", suite.measure),
    "suite-workers": Bench(
        "One test more, with a broker for each worker (floor: no broker)", workers.measure
    ),
    "upstream-start": Bench("Start beside a real RocketMQ (floor)", upstream.starts),
    "upstream-sends": Bench("Sends beside a real RocketMQ (floor)", upstream.sends),
    "upstream-lateness": Bench("Lateness beside a real RocketMQ (floor)", upstream.lateness),
    "upstream-herd": Bench("A herd beside a real RocketMQ (floor)", upstream.herd),
    "upstream-grpc": Bench("gRPC beside a real RocketMQ's proxy (floor)", grpc_upstream.measure),
    "reports-small": Bench("Lateness reports of small ledgers (floor: a bare Spark)", reports.small),
    **{
        f"reports-{size}m": Bench(
            f"Lateness reports of {size} million rows (floors: DuckDB, ADBC)",
            reports.large(size * reports.MILLION),
        )
        for size in (1, 10, 50)
    },
}


def named(name: str) -> list[str]:
    """Return the benchmarks whose names are or begin with ``name``; ``reports`` selects all of reports."""
    return [each for each in BENCHES if each == name or each.startswith(f"{name}-")]


def run(name: str, quick: bool) -> list[Figure]:
    """Run a benchmark on the broker's kind of event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(BENCHES[name].measure(quick))
