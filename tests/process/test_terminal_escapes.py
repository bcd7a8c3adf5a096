"""What clients sent reaches no terminal as a command to it."""

import pytest

from mocketmq import Client
from tests.hostile.flooded import SEND, SEND_MESSAGE_V2
from tests.support.command_line import Shell
from tests.support.process import forked_broker
from tests.support.remoting import connected

ESCAPES = "\x1b]0;owned\x07\x1b[2J"


@pytest.mark.parametrize("command", [("leaks",), ("message", "KEY"), ("find", "KEY"), ("find", ESCAPES)])
async def test_no_command_prints_escapes_of_a_message(command: tuple[str, ...]) -> None:
    key = f"id{ESCAPES}"
    async with (
        forked_broker() as broker,
        Client(broker.url) as client,
        connected(broker.name_server[0], broker.broker_port) as remoting,
    ):
        await remoting.ok(SEND_MESSAGE_V2, SEND | {"i": f"UNIQ_KEY\x01{key}\x02"}, ESCAPES.encode())
        assert len(await client.receive("orders", group="billing")) == 1
        ended = await Shell(broker.url)(*(key if word == "KEY" else word for word in command))
        assert "\x1b" not in ended.stdout + ended.stderr
        assert "x1b" in ended.stdout + ended.stderr  # it is shown, but as text
