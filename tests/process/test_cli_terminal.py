"""Commands that print tables, on terminals of 80 and 60 columns, with the longest possible names."""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from mocketmq.cli.text import cell_width
from mocketmq.remoting.wire.codes import RequestCode
from tests.doors.remoting import producing
from tests.support.command_line import Shell
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker
from tests.support.remoting import RemotingClient, connected

GROUP, TOPIC, CLIENT = "g" * 255, "t" * 127, "c" * 255
KEY, TAG = "k" * 255, "a" * 255
MESSAGE_ID = "A53FE6E206FD1A204474F20000000000"
BROKEN = re.compile(r"[0-9A-F]{16,31}…?$|2\d{3}-(?!\d\d-\d\d(?:T\d\d:\d\d:\d\d\.\d{3}Z|$))")
"""Matches part of a message id or of an instant; texts also have complete dates."""


def on_a_terminal(columns: int, url: str, *arguments: str) -> list[str]:
    """Run a command on a terminal of this width, and return its lines."""
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    command = [sys.executable, "-m", "mocketmq", *arguments]
    with subprocess.Popen(command, stdout=slave, env=os.environ | {"MOCKETMQ_URL": url}) as process:
        os.close(slave)
        seen = b""
        try:
            while some := os.read(terminal, 65_536):
                seen += some
        except OSError:  # the end of a terminal
            pass
        finally:
            os.close(terminal)
        process.wait(PATIENCE_S)
    return seen.decode().splitlines()


async def fill(shell: Shell) -> str:
    """Create messages in all states with the longest names, and return the id of one message."""
    options = ("--key", KEY, "--tag", TAG)
    for level in ("0", "1", "18"):
        sent = await shell.json("send", TOPIC, "a body of some words " * 20, "--level", level, *options)
    await shell.json("send", TOPIC, "later", "--delay", "2d", *options)
    await shell.json("groups", "create", GROUP)
    await shell.json("receive", TOPIC, "--group", GROUP, "--no-ack")
    await shell.json("faults", "add", "late", "by=1ms", f"topic={TOPIC}", "name=" + "f" * 60, "next=1")
    return str(sent["message_id"])


async def connect(client: RemotingClient) -> None:
    """Connect a consumer and a producer with an undecided half message."""
    subscription = {"topic": TOPIC, "subString": TAG, "tagsSet": [TAG], "codeSet": [], "subVersion": 1}
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    body = {"clientID": CLIENT, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": GROUP}]}
    await client.ok(RequestCode.HEART_BEAT, body=json.dumps(body).encode())
    properties = {"UNIQ_KEY": MESSAGE_ID, "KEYS": KEY, "TRAN_MSG": "true", "PGROUP": GROUP}
    await producing.sent(client, properties=properties, topic=TOPIC, sys_flag=4)


@pytest.mark.parametrize("columns", [80, 60])
async def test_tables_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    async with forked_broker("--clock", "manual", "--data", str(tmp_path / "data")) as broker:
        shell = Shell(broker.url)
        message_id = await fill(shell)
        commands = [
            *(["peek", TOPIC], ["find", KEY], ["message", message_id], ["levels"], ["delayed", "ls"]),
            *(
                ["topics"],
                ["groups"],
                ["clients"],
                ["faults", "ls"],
                ["transactions", "ls"],
                ["events"],
                ["leaks"],
            ),
            ["receive", TOPIC, "--group", "other", "--no-ack"],
            ["delayed", "ls", "--dir", str(tmp_path / "data")],
        ]
        async with connected("127.0.0.1", broker.broker_port) as client:
            await connect(client)
            shown = await asyncio.gather(
                *(asyncio.to_thread(on_a_terminal, columns, broker.url, *command) for command in commands)
            )
    for command, lines in zip(commands, shown, strict=True):
        assert lines, command
        assert max(map(cell_width, lines)) <= columns, "\n".join((*command, *lines))
        for word in " ".join(lines).split():
            assert not BROKEN.match(word), "\n".join((*command, *lines))
