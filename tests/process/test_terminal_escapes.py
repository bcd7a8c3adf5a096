"""Escape sequences from clients never reach a terminal, in any command's output, errors, JSON or logs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq import Client
from mocketmq.cli import commands
from mocketmq.cli.text import harmless_json
from tests.doors.remoting.consuming import HEART_BEAT, beat, consumer, subscription
from tests.doors.remoting.producing import sent
from tests.support.brokers import GROUP, TOPIC
from tests.support.command_line import Ended, Shell
from tests.support.command_line_reference import walk
from tests.support.delayed_files import made
from tests.support.process import forked_broker
from tests.support.remoting import Remoting, RemotingClient, connected, running_remoting

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
"""Sets the title, clears the screen twice (once by a C1 character), and reverses the text."""
KEY, DELAYED, HALF, CLIENT_ID = (f"{name}{ESCAPES}" for name in ("id", "delayed", "half", "client"))
HOUR_MS = 3_600_000

SHOWING = {
    "receive": "receive {topic} --group others --no-ack",
    "wait": "wait {topic} --count 9 --wait 1ms --body {key}",
    "events": "events",
    "leaks": "leaks",
    "peek": "peek {topic}",
    "find": "find {key}",
    "message": "message {key}",
    "delayed ls": "delayed ls",
    "delayed cancel": "delayed cancel {delayed}",
    "delayed deliver": "delayed deliver {delayed}",
    "delayed ls in files": "delayed ls --dir {data}",
    "delayed cat": "delayed cat {delayed} --dir {data}",
    "delayed verify": "delayed verify --dir {bad}",
    "delayed import": "delayed import {bad} --data {new}",
    "verify": "verify --data {bad}",
    "transactions ls": "transactions ls",
    "transactions commit": "transactions commit {half}",
    "transactions rollback": "transactions rollback {half}",
    "faults ls": "faults ls",
    "faults add": "faults add late by=1ms client={client}",
    "clients ls": "clients ls",
    "client": "client {client} --group {group}",
    "client consume": "client {client} --group {group} --consume {key}",
    "topics ls": "topics ls",
    "groups ls": "groups ls",
}
"""Commands that show texts that clients have sent or that users give."""
FAILING = {
    "no message": ("message", f"none{ESCAPES}"),
    "no key": ("find", f"none{ESCAPES}"),
    "not pending": ("delayed", "cancel", KEY),
    "no half message": ("transactions", "commit", KEY),
    "no client": ("client", f"nobody{ESCAPES}", "--group", GROUP),
    "no broker": ("brokers", "crash", f"none{ESCAPES}"),
    "no fault": ("faults", "rm", f"none{ESCAPES}"),
    "refused key": ("send", TOPIC, "again", "--key", KEY),
    "no topic": ("peek", f"none{ESCAPES}"),
    "no file": ("delayed", "cat", f"none{ESCAPES}"),
    "no snapshot": ("snapshot", "restore", f"none{ESCAPES}"),
    "no pack": ("open", f"none{ESCAPES}"),
    "no place for a pack": ("pack", f"none{ESCAPES}/none"),
    "no seed": ("seed", f"none{ESCAPES}.toml"),
    "no directory": ("verify", "--data", f"none{ESCAPES}"),
    "no command": (f"none{ESCAPES}",),
}
WITHOUT = {
    *(
        "serve",
        "schema",
        "mcp",
        "report",
        "probe",
        "lab",
        "record",
        "replay",
        "relay",
        "relay kafka",
        "relay rocketmq",
        "demo",
        "export",
        "sql",
    ),
    *(
        "healthcheck",
        "info",
        "send",
        "seed",
        "levels",
        "reset",
        "clock",
        "clock show",
        "clock advance",
        "clock to",
        "clock next",
    ),
    *("topics create", "topics delete", "groups create", "groups reset", "groups delete", "faults rm"),
    *("brokers", "brokers ls", "brokers crash", "brokers shutdown", "brokers promote", "brokers start"),
    *("brokers cut-off", "brokers reconnect", "brokers read-only", "brokers writable", "brokers wipe"),
    *("name-servers", "name-servers ls", "name-servers stop", "name-servers start", "name-servers freeze"),
    *("name-servers hide", "name-servers keep", "name-servers correct"),
    *("snapshot save", "snapshot restore", "snapshot ls", "snapshot diff", "snapshot rm"),
    *("pack", "open"),
    *("delayed", "transactions", "faults", "snapshot", "topics", "groups", "clients"),
}
"""Commands that show only numbers, instants and validated names, and groups of commands."""


class Place(NamedTuple):
    """A broker with harmful escape sequences, and directories of delayed messages."""

    shell: Shell
    client: RemotingClient
    words: dict[str, str]


@asynccontextmanager
async def hostile(directory: Path) -> AsyncIterator[Place]:
    data, bad, new = (directory / name for name in ("data", "bad", "new"))
    async with running_remoting(data=str(data)) as remoting, remoting.another() as consuming:
        await fill(remoting, consuming)
        for place in (bad, new):
            async with running_remoting(data=str(place)):
                pass
        stray = made(KEY, b"hello", properties={"KEYS": ESCAPES}).put(bad / "delay", f"1700000000/{ESCAPES}")
        stray.with_name("torn").write_bytes(ESCAPES.encode())
        words = {
            **{"topic": TOPIC, "group": GROUP, "key": KEY, "delayed": DELAYED, "half": HALF},
            **{"client": CLIENT_ID, "data": str(data), "bad": str(bad), "new": str(new)},
        }
        yield Place(Shell(remoting.emulator.url), consuming, words)


async def fill(remoting: Remoting, consuming: RemotingClient) -> None:
    """Create messages in all states, a client and a rule, with escapes wherever clients can put them."""
    wild = {"TAGS": ESCAPES, "KEYS": KEY, f"name{ESCAPES}": ESCAPES}
    body = beat(consumer(subscription(expression=ESCAPES)), client=CLIENT_ID, producers=(f"makers{ESCAPES}",))
    await consuming.ok(HEART_BEAT, body=body)
    await sent(remoting.client, f"{ESCAPES} {KEY}".encode(), properties={"UNIQ_KEY": KEY, **wild})
    due_ms = remoting.broker.clock.now_us() // 1_000 + HOUR_MS
    await sent(
        remoting.client,
        ESCAPES.encode(),
        properties={"UNIQ_KEY": DELAYED, "__STARTDELIVERTIME": str(due_ms), **wild},
    )
    half = {"TRAN_MSG": "true", "UNIQ_KEY": HALF, "PGROUP": ESCAPES, **wild}
    await sent(remoting.client, ESCAPES.encode(), properties=half, sys_flag=4)
    async with Client(remoting.emulator.url) as client:
        assert len(await client.receive(TOPIC, group=GROUP)) == 1
        await client.add_fault("late", by="1ms", client=CLIENT_ID)


def assert_harmless(ended: Ended) -> None:
    shown = ended.stdout + ended.stderr
    bad = {c for c in shown if not c.isprintable() and c != "\n"}
    assert not bad, (bad, shown)


async def answer_for(client: RemotingClient) -> None:
    """Answer the broker's requests to a consumer with harmful text."""
    while True:
        asked = await client.pushes.get()
        queue = {"brokerName": ESCAPES, "queueId": 0, "topic": ESCAPES}
        told = {
            "mqTable": {json.dumps(queue): {"commitOffset": 1}, ESCAPES: {"cachedMsgCount": ESCAPES}},
            "statusTable": {ESCAPES: {"pullTPS": ESCAPES}},
            "consumeResult": ESCAPES,
            "remark": f"remark {ESCAPES}",
            "order": False,
            "autoCommit": True,
            "spentTimeMills": 1,
        }
        client.send(asked.answer(0, {}, json.dumps(told).encode(), None))


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", SHOWING)
async def test_text_of_clients_is_shown_escaped(name: str, as_json: bool, tmp_path: Path) -> None:
    async with hostile(tmp_path) as place:
        answering = asyncio.create_task(answer_for(place.client))
        words = [word.format(**place.words) for word in SHOWING[name].split()]
        ended = await place.shell(*words, *["--json"] * as_json)
        answering.cancel()
    assert ended.code in (0, 1, 4, 6), ended
    assert_harmless(ended)
    if as_json:
        assert json.loads(ended.stdout)


@pytest.mark.parametrize("name", FAILING)
async def test_a_missing_name_is_shown_escaped(name: str, tmp_path: Path) -> None:
    async with hostile(tmp_path) as place:
        ended = await place.shell(*FAILING[name])
    assert ended.code, ended
    assert_harmless(ended)


@given(st.text())
def test_json_stays_the_same_value(text: str) -> None:
    shown = harmless_json(json.dumps({text: text}, indent=2, ensure_ascii=False))
    assert json.loads(shown) == {text: text}
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_every_command_is_listed() -> None:
    shown = {each.removesuffix(" in files").removesuffix(" consume") for each in SHOWING}
    known = {" ".join(path) for path, _ in walk(commands)}
    assert known == shown | WITHOUT
    assert not shown & WITHOUT


async def test_log_escapes_text_of_clients() -> None:
    async with (
        forked_broker("--log-level", "debug") as broker,
        connected(broker.name_server[0], broker.broker_port) as client,
    ):
        await client.call(105, {"topic": f"none{ESCAPES}"})
        await client.ok(HEART_BEAT, body=beat(client=CLIENT_ID, producers=("makers",)))
        broker.terminate()
        await broker.wait()
    assert {c for c in broker.stderr if not c.isprintable()} == {"\n"}
