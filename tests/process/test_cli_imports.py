"""Imports of commands that talk to a broker, because imports take nearly all of their time."""

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from itertools import chain
from pathlib import Path

import click
import pytest

from mocketmq import Client
from mocketmq.cli import commands
from tests.support.process import clean_environment, forked_broker

COMMANDS = {
    "send": ["send orders hi --delay 1s", "send orders hi --at 2030-01-31T08:00:00Z", "send orders hi"],
    "receive": ["receive orders --group g --wait 1s"],
    "wait": ["wait orders"],
    "events": ["events", "events --json"],
    "info": ["info"],
    "leaks": ["leaks --wait 1ms"],
    "peek": ["peek orders", "peek orders --offset -1 --json"],
    "find": ["find 7", "find 7 --topic orders"],
    "message": ["message {id}", "message nosuch"],
    "levels": ["levels", "levels --json"],
    "delayed": ["delayed ls", "delayed deliver {id}", "delayed cancel {id}"],
    "transactions": ["transactions ls", "transactions commit {id}"],
    "clock": ["clock", "clock advance 1s", "clock to 0", "clock next"],
    "topics": ["topics", "topics ls", "topics create more", "topics delete more"],
    "groups": ["groups", "groups ls", "groups create h", "groups reset g orders", "groups delete g"],
    "clients": ["clients", "clients ls"],
    "client": ["client nobody --group g"],
    "brokers": [
        "brokers ls",
        "brokers crash broker-a",
        "brokers start broker-a",
        "brokers shutdown broker-b",
        "brokers promote broker-b",
        "brokers wipe broker-b",
        "brokers cut-off broker-a clients",
        "brokers reconnect broker-a",
        "brokers read-only broker-a",
        "brokers writable broker-a",
    ],
    "name-servers": [
        "name-servers ls",
        "name-servers stop 1",
        "name-servers start 1",
        "name-servers hide 1 broker-a",
        "name-servers keep 1 broker-a",
        "name-servers freeze 1",
        "name-servers correct 1",
    ],
    "faults": ["faults add late by=1ms next=1 --json", "faults ls", "faults rm --all"],
    "reset": ["reset --topic orders", "reset --clock start --forget"],
    "snapshot": [
        "snapshot save s",
        "snapshot ls",
        "snapshot diff s",
        "snapshot restore s",
        "snapshot rm s",
    ],
    "pack": ["pack /dev/null/none --test t"],
    "seed": ["seed - --format jsonl"],
    "healthcheck": ["healthcheck", "healthcheck --url http://127.0.0.1:9"],
}
OTHERS = {
    "mcp",
    "open",
    "schema",
    "serve",
    "export",
    "sql",
    "report",
    "probe",
    "lab",
    "record",
    "replay",
    "relay",
    "demo",
    "verify",
}
"""Commands that work without a broker; `mcp`, which imports what its extra brings, and `replay`."""

PROGRAM = """
import atexit, sys
atexit.register(lambda: print("imported", *sys.modules, file=sys.stderr))
from mocketmq.cli import main
main()
"""
HEAVY = {"asyncio", "dataclasses", "logging", "multiprocessing", "shutil", "tempfile", "tomllib", "xml"}
"""Standard library modules that they must not import; the first would take a third of a command's time."""

UNUSED = {
    *("aiohttp.web", "aiohttp.web_app", "aiohttp.web_fileresponse"),  # see mocketmq/http_api/web.py
    *("csv", "tomllib", "xml.parsers.expat", "zipfile"),
    *("mocketmq.broker.filters.sql_expressions", "mocketmq_compat.aliyun_http.door"),
    *("mocketmq.remoting.requests.families", "mocketmq.remoting.requests.at_slave"),
    *("mocketmq.schedule.lateness_playback", "mocketmq.seed_file", "mocketmq.text_positions"),
}
"""Modules that a broker imports when they are first used. Together they take 3 MB."""

OUR_HEAVY = ("mocketmq.app", "mocketmq.broker", "mocketmq.http_api", "mocketmq.settings", "mocketmq.store")
SITE = set(
    subprocess.run(
        [sys.executable, "-c", "import sys; print(*{name.partition('.')[0] for name in sys.modules})"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.split()
)
"""Modules that an interpreter imports by itself in this environment."""


def test_every_command_is_listed() -> None:
    known = COMMANDS.keys() | OTHERS
    assert known == set(commands.list_commands(click.Context(commands)))


async def test_client_commands_import_click_alone() -> None:
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        sent = await client.send("orders", "hi", delay_level=3)
        for command in chain.from_iterable(COMMANDS.values()):
            modules = await imported_by(command.format(id=sent["message_id"]), broker.url)
            tops = {module.partition(".")[0] for module in modules}
            assert "http" in tops, f"{command} did not get as far as asking the broker"
            assert tops - sys.stdlib_module_names - SITE == {"click", "mocketmq"}, command
            assert not tops & HEAVY, command
            assert not {module for module in modules if module.startswith(OUR_HEAVY)}, command


@pytest.mark.parametrize("data", [":memory:", "data"])
async def test_a_broker_starts_without_what_it_may_never_use(tmp_path: Path, data: str) -> None:
    where = data if data == ":memory:" else tmp_path / data
    modules = await imported_by(f"serve --data {where} --port 0 --until-eof", "")
    assert "mocketmq.http_api.web" in modules, "the broker did not get as far as opening its ports"
    assert not modules & UNUSED - SITE


async def imported_by(command: str, url: str) -> set[str]:
    """Return the modules in the process at the end of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, *command.split()),
        env={**clean_environment(), "MOCKETMQ_URL": url},
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )
    _, told = await process.communicate()
    *_, last = told.decode().splitlines()
    return set(last.split()[1:])
