"""Errors of the command for wrong options and for unusable clusters."""

import json
from pathlib import Path

import pytest

from mocketmq.cli import commands
from tests.support.command_line import runner
from tests.support.process import forked_broker
from tests.support.relays import LATER, QUEUES, forked_relay, line_of, refused_start

NEEDED = ("--name-server", "127.0.0.1:1", "--topic", LATER)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--topic", LATER], "Missing option '--name-server'"),
        ([*NEEDED, "--lock-time", "10ms"], "--lock-time is '10ms'; allowed: 1s or longer"),
        ([*NEEDED, "--carry-after", "soon"], "--carry-after is 'soon'"),
        ([*NEEDED, "--group", "a b"], "'a b'"),
        ([*NEEDED, "--refused-topic", "x y"], "topic contains illegal characters"),
        ([*NEEDED, "--access-key", "me"], "give both --access-key and --secret-key, or neither"),
        ([*NEEDED, "--tls-ca", "a", "--tls-insecure"], "--tls-ca and --tls-insecure cannot be combined"),
    ],
)
def test_wrong_options_are_reported(args: list[str], said: str) -> None:
    told = runner().invoke(commands, ["relay", "rocketmq", *args])
    assert told.exit_code == 2, told.output
    assert said in " ".join(told.stderr.split()), told.stderr


async def test_a_name_server_without_a_broker_is_reported() -> None:
    assert "no name server answered: 127.0.0.1:1 cannot be reached" in await refused_start("127.0.0.1:1")


async def test_a_refusing_broker_is_reported() -> None:
    async with forked_broker("--access-keys", "me:secret") as broker:
        host, port = broker.name_server
        said = await refused_start(f"{host}:{port}")
    assert "accesskey" in said.lower(), said


async def test_an_account_and_tls_are_taken() -> None:
    async with forked_broker("--access-keys", "me:secret") as broker:
        host, port = broker.name_server
        access = ("--access-key", "me", "--secret-key", "secret", "--tls-insecure")
        relay = await forked_relay(f"{host}:{port}", *access)
        try:
            await line_of(relay, f"serving {QUEUES} partitions")
            relay.terminate()
            assert await relay.wait() == 0
        finally:
            relay.kill()


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_the_ready_file_names_the_partitions_until_the_relay_ends(tmp_path: Path) -> None:
    file = tmp_path / "relay.json"
    file.write_text("from a relay that was killed")
    async with forked_broker() as broker:
        host, port = broker.name_server
        relay = await forked_relay(f"{host}:{port}", "--ready-file", str(file))
        try:
            await line_of(relay, f"serving {QUEUES} partitions")
            names = [f"{LATER}-broker-a-{number}" for number in range(QUEUES)]
            assert json.loads(file.read_bytes()) == {"partitions": names}
            relay.terminate()
            assert await relay.wait() == 0
        finally:
            relay.kill()
    assert names_in(tmp_path) == []


async def test_a_ready_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    async with forked_broker() as broker:
        host, port = broker.name_server
        relay = await forked_relay(f"{host}:{port}", "--ready-file", str(tmp_path / "missing" / "relay.json"))
        assert relay.stderr
        try:
            said = (await relay.stderr.read()).decode()
            assert await relay.wait() == 2, said
        finally:
            relay.kill()
    assert "--ready-file is " in said
    assert "allowed: a file that can be written (No such file or directory)" in said
