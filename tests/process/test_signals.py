"""A signal ends every command at once, whenever it arrives."""

import asyncio
import random
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import psutil
import pytest

from mocketmq.cli import commands
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment
from tests.support.stores import MadeStore

ASKING = {
    "send": "send orders hi",
    "receive": "receive orders --group g --wait 30s",
    "wait": "wait orders --wait 30s",
    "events": "events",
    "leaks": "leaks --wait 30s",
    "peek": "peek orders",
    "find": "find 7",
    "message": "message 0A",
    "levels": "levels",
    "delayed": "delayed ls",
    "transactions": "transactions ls",
    "clock": "clock advance 2h",
    "topics": "topics",
    "groups": "groups",
    "clients": "clients",
    "brokers": "brokers ls",
    "name-servers": "name-servers ls",
    "faults": "faults ls",
    "client": "client me@1 --group g",
    "reset": "reset",
    "snapshot": "snapshot ls",
    "pack": "pack /dev/null/none",
    "seed": "seed - --format jsonl",
    "healthcheck": "healthcheck",
    "info": "info",
}
"""A command line for each command that asks a broker."""
WORKING = {
    "serve": "serve --port 0 --data {store}",
    "export": "export {store} {folder}",
    "sql": "sql FROM/**/deliveries {store}",
    "report": "report {store} --out {folder}",
    "probe": "probe --name-server 127.0.0.1:9 --out {folder}.csv",
    "lab": "lab --out {folder}-lab",
    "record": "record --name-server 127.0.0.1:9 --topic orders --to {folder}.jsonl",
    "replay": "replay {folder}.jsonl",
    "relay": "relay rocketmq --name-server 127.0.0.1:9 --topic delayed",
    "demo": "demo",
    "verify": "verify --data {store}",
    "schema": "schema",
    "open": "open {folder}.mocketmq",
    "mcp": "mcp",
}
SIGNALS = [signal.SIGINT, signal.SIGTERM]
ENDED = {
    signal.SIGINT: {130},
    signal.SIGTERM: {143, 130},  # the demo may exit with the second
}
"""Exit codes by signal."""


BY_ITSELF = {
    "export": 0,
    "sql": 0,
    "report": 0,
    "probe": 3,
    "record": 3,
    "replay": 2,
    "relay": 3,
    "healthcheck": 3,
    "verify": 0,
    "schema": 0,
    "open": 2,
    "mcp": 0,
}
"""Exit codes of commands that may finish just before the signal."""


async def start(
    command: str, code: str = "from mocketmq.__main__ import main; main()", **env: str
) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *command.split()),
        env=clean_environment() | env,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def code_after(process: Process, number: signal.Signals) -> tuple[int | None, str]:
    """Send a signal, and return the exit code and the output."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    async with asyncio.timeout(HANGING_S):
        _, said = await process.communicate()
    return process.returncode, said.decode()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Run a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def test_every_command_is_listed() -> None:
    assert ASKING.keys() | WORKING.keys() == set(commands.list_commands(click.Context(commands)))


@pytest.mark.parametrize("number", SIGNALS)
async def test_signal_ends_a_command_waiting_for_its_broker(
    silent: socket.socket, number: signal.Signals
) -> None:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    for command in sorted(ASKING.keys() - {"healthcheck"}):  # healthcheck waits only two seconds
        process = await start(ASKING[command], MOCKETMQ_URL=url)
        connection, _ = await asyncio.get_running_loop().sock_accept(silent)
        with connection:
            code, said = await code_after(process, number)
            assert code in ENDED[number], (command, said)


DEAF = """
import signal
from mocketmq import __main__, cli

def run(run=cli.main):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    run()

cli.main = run
__main__.main()
"""
"""Runs the program so that no signal wakes its main thread, as if it arrived just before a system call."""


@pytest.mark.parametrize("number", SIGNALS)
async def test_signal_just_before_a_system_call_ends_a_command(
    silent: socket.socket, number: signal.Signals
) -> None:
    process = await start(ASKING["peek"], DEAF, MOCKETMQ_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
    connection, _ = await asyncio.get_running_loop().sock_accept(silent)
    with connection:
        code, said = await code_after(process, number)
    assert code in ENDED[number], said


BEGUN = """
import signal
from mocketmq.__main__ import main

def told(number, handler, set_signal=signal.signal):
    set_signal(number, handler)
    if number == signal.SIGTERM:
        signal.signal = set_signal
        print("begun", flush=True)

signal.signal = told
main()
"""
"""Runs the program, and reports its start; before that, the interpreter handles signals."""


@pytest.mark.parametrize("number", SIGNALS)
async def test_signal_ends_a_command_at_any_moment(
    silent: socket.socket, tmp_path: Path, number: signal.Signals
) -> None:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    store = MadeStore(tmp_path / "store").data
    for command in [*random.sample(sorted(ASKING.values()), 5), *WORKING.values()]:
        process = await start(command.format(store=store, folder=tmp_path / "out"), BEGUN, MOCKETMQ_URL=url)
        assert process.stdout
        assert await process.stdout.readline() == b"begun\n"
        try:
            await asyncio.wait_for(process.wait(), random.uniform(0, 0.5))
        except TimeoutError:
            code, said = await code_after(process, number)
            name = command.split()[0]
            expected = {*ENDED[number]}
            if name in ("serve", "relay"):  # once started, these stop in order
                expected.add(0)
            if name in BY_ITSELF:
                expected |= {BY_ITSELF[name], -number}
            assert code in expected, (command, said)


LOSING_IMPORTS = """
import sys, threading, types
from mocketmq.__main__ import main

def lose():
    while True:
        try:
            print("importing", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:  # as in the callback of a module's lock
            pass

sys.modules["mocketmq.cli"] = types.SimpleNamespace(main=lose)
main()
"""


@pytest.mark.parametrize("number", SIGNALS)
async def test_no_signal_is_lost_in_imports(number: signal.Signals) -> None:
    process = await start("topics", LOSING_IMPORTS)
    assert process.stdout
    assert await process.stdout.readline() == b"importing\n"
    assert (await code_after(process, number))[0] == 128 + number


LOSING = """
import threading
import mocketmq_report.session as module
from mocketmq.__main__ import main

def start(*_):
    while True:
        try:
            print("starting", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:  # as in the callback of a weak reference
            pass

module._start = start
main()
"""
"""Runs a report whose Spark never starts and swallows every KeyboardInterrupt."""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("option", ["--json", "--follow"])
async def test_a_report_loses_no_signal(tmp_path: Path, number: signal.Signals, option: str) -> None:
    store = MadeStore(tmp_path / "store").data
    process = await start(f"report {store} {option} --out {tmp_path / 'out'}", LOSING)
    assert process.stdout
    assert await process.stdout.readline() == b"starting\n"
    assert (await code_after(process, number))[0] == 128 + number


@pytest.mark.slow  # test_follow has a quick test, with a table in its own process
async def test_signal_ends_a_rolling_table_and_its_processes(tmp_path: Path) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    made = MadeStore(tmp_path / "store")
    made.deliver(10)
    process = await start(
        f"report {made.data} --follow",
        TMPDIR=str(temporary),
        JAVA_TOOL_OPTIONS=f"-Djava.io.tmpdir={temporary}",
    )
    assert process.stdout
    async with asyncio.timeout(HANGING_S):
        before, line = b"Spark is starting", b""
        while b" up to " not in line or b"Spark is starting" in before:
            before, line = line, await process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    assert (await code_after(process, signal.SIGINT))[0] == 130
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, HANGING_S)
    assert not alive
    assert not list(temporary.iterdir())
