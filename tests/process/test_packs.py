"""Packs: a broker that is opened from one is at the moment of the failure, and goes on from there."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.cli.exit_codes import Exit
from tests.support.command_line import Shell
from tests.support.process import StartError, clean_environment, forked_broker, opened_pack
from tests.support.remoting import connected

SECRETS = {"MOCKETMQ_TOKEN": "sesame-of-the-api", "MOCKETMQ_ACCESS_KEYS": "someone:sesame-of-clients"}
SEEN = (
    *("/v1/topics", "/v1/groups", "/v1/delayed", "/v1/faults", "/v1/levels", "/v1/events", "/v1/leaks"),
    "/v1/transactions?topic=orders",
    "/v1/message-states",
)


async def seen(client: Client) -> dict[str, Any]:
    """What the broker answers to questions about its state."""
    found = {path: await client._call("GET", path) for path in SEEN}
    for pending in found["/v1/delayed"]["messages"]:
        del pending["offset_message_id"], pending["store_host"]  # have the port of the broker
    for group in found["/v1/groups"]["groups"]:  # without queues from which the group has received nothing
        group["queues"] = [queue for queue in group["queues"] if queue["max_offset"]]
    return found


@pytest.fixture
async def packed(tmp_path: Path) -> tuple[Path, dict[str, Any], int]:
    """A pack of a broker in the middle of things; what the broker answered then, and its clock."""
    file, trace = tmp_path / "failed.mocketmq", tmp_path / "trace.txt"
    trace.write_text("AssertionError: assert 1 == 2")
    options = ("--clock", "manual", "--levels", "1s 7s 1h", "--snapshots", str(tmp_path))
    token = SECRETS["MOCKETMQ_TOKEN"]
    async with forked_broker(*options, env=SECRETS) as process, Client(process.url, token) as client:
        await client.send("orders", "first", queue_id=0, keys=["order-1"])
        await client.send("orders", "second", queue_id=0)
        await client.send("orders", "retried later", queue_id=0, delay_level=3)
        await client.send("orders", "at a time", delay="90m")
        [taken] = await client.receive("orders", group="billing", invisible="1m")
        await client.acknowledge("billing", [taken])
        await client.receive("orders", group="billing", invisible="1m")
        await client.add_fault("late", by="1ms", topic="none", name="slow")
        await client.send("orders", "due next", delay_level=2)
        await client.advance("5s")
        shell = Shell(process.url, MOCKETMQ_TOKEN=token)
        said = await shell(
            "pack", str(file), "--test", "tests/test_orders.py::test_7", "--failure", str(trace)
        )
        assert said == (0, f"packed {file.stat().st_size} bytes into {file}: mocketmq open {file}\n", "")
        return file, await seen(client), (await client.clock())["now_ms"]


async def test_an_opened_pack_is_at_the_moment_of_the_failure(packed: Any) -> None:
    file, before, now_ms = packed
    content = file.read_bytes()
    async with opened_pack(file) as process, Client(process.url) as client:
        clock = await client.clock()
        assert (clock["now_ms"], clock["mode"]) == (now_ms, "manual")
        assert await seen(client) == before
        opened = (await client._call("GET", "/v1/pack"))["pack"]
        assert opened["test"] == "tests/test_orders.py::test_7"
        assert opened["failure"] == "AssertionError: assert 1 == 2"
        assert opened["events"] == before["/v1/events"]["events"]
        assert (opened["file"], opened["clock_ms"]) == (file.name, now_ms)
    assert file.read_bytes() == content


async def test_stepping_delivers_what_was_due_next_as_often_as_wanted(packed: Any) -> None:
    file, before, now_ms = packed
    async with opened_pack(file) as process, Client(process.url) as client:
        for _ in range(2):
            moved = await client.move_to_next()
            assert (moved["now_ms"], moved["fired"]) == (now_ms + 2_000, 1)
            bodies = [one["body"] for one in await client.receive("orders", group="audit", max_messages=9)]
            assert sorted(bodies) == ["due next", "first", "second"]
            assert await client.receive("orders", group="billing", max_messages=9, invisible="1h") != []
            await client.advance("2h")
            bodies = [one["body"] for one in await client.receive("orders", group="more", max_messages=9)]
            assert sorted(bodies) == ["at a time", "due next", "first", "retried later", "second"]
            await client.restore_snapshot("pack")
            assert await seen(client) == before


async def test_a_pack_is_readable_and_has_no_secret(packed: Any) -> None:
    file, _, _ = packed
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert not [name for name, content in members.items() if b"sesame" in content]
    settings = json.loads(members["settings.json"])
    assert (settings["token"], settings["access_keys"], settings["levels"]) == ("***", "***", "1s 7s 1h")
    story = members["story.txt"].decode()
    assert story.startswith("tests/test_orders.py::test_7 failed\n\nAssertionError: assert 1 == 2\n")
    assert "taken by billing" in story
    assert zipfile.is_zipfile(file)


async def test_declared_brokers_keep_their_names_and_faults(tmp_path: Path) -> None:
    file, config = tmp_path / "failed.mocketmq", tmp_path / "mocketmq.toml"
    config.write_text(
        'slaves = 1\nclock = "manual"\n[[brokers]]\nname = "east"\n[[brokers]]\nname = "west"\nslave_id = 7\n'
    )
    async with forked_broker("--config", str(config)) as process, Client(process.url) as client:
        for queue_id in range(2):
            await client.send("orders", "late", queue_id=queue_id, delay="1s")
        await client.advance("1s")
        await client.add_fault("refuse", error="SYSTEM_BUSY", broker="west")
        await client.pack(str(file))
    with zipfile.ZipFile(file) as archive:
        ledger = [json.loads(line) for line in archive.read("ledger.jsonl").splitlines()]
    assert {row["queue_id"]: row["broker"] for row in ledger} == {0: "east", 1: "west"}
    async with opened_pack(file) as process, Client(process.url) as client:
        assert [each["name"] for each in await client.brokers()] == ["east", "west"]
        assert [each["broker"] for each in await client.faults()] == ["west"]
        namesrv = (await client.info())["doors"]["namesrv"]["port"]
        async with connected("127.0.0.1", namesrv) as remoting:
            route = json.loads((await remoting.ok(105, {"topic": "orders"})).body)
        ids = {each["brokerName"]: [*each["brokerAddrs"]] for each in route["brokerDatas"]}
        assert ids == {"east": ["0", "1"], "west": ["0", "7"]}


async def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "f.mocketmq"
    file.write_text("mine")
    async with forked_broker() as process:
        shell = Shell(process.url)
        refused = await shell("pack", str(file))
        assert (refused.code, file.read_text()) == (Exit.USAGE, "mine")
        assert "which exists; allowed: a new file, or --replace" in refused.stderr
        assert (await shell("pack", str(file), "--replace")).code == 0
        assert zipfile.is_zipfile(file)
        refused = await shell("pack", str(tmp_path / "none" / "f.mocketmq"))
        assert (refused.code, "cannot be written: No such file" in refused.stderr) == (Exit.USAGE, True)
        async with Client(process.url) as client:
            assert await client._call("GET", "/v1/pack") == {"pack": None}


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("none.mocketmq", Exit.USAGE, "allowed: a readable pack (No such file or directory)"),
        ("text.mocketmq", Exit.DAMAGED, "text.mocketmq is not a mocketmq pack: it is not a ZIP archive"),
    ],
)
async def test_what_is_no_pack_is_refused(tmp_path: Path, name: str, code: int, sentence: str) -> None:
    (tmp_path / "text.mocketmq").write_text("hello " * 100)
    with pytest.raises(StartError) as error:
        async with opened_pack(tmp_path / name):
            pass
    assert error.value.returncode == code
    assert sentence in error.value.stderr
    assert "Traceback" not in error.value.stderr


KILLED = """
import os, signal
from mocketmq.client.operations import write_whole_file
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_whole_file({path!r}, b"new")
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_kill_leaves_no_part_of_a_pack(tmp_path: Path, is_there: bool) -> None:
    file = tmp_path / "f.mocketmq"
    if is_there:
        file.write_bytes(b"old")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED.format(path=str(file))], env=clean_environment(), check=False
    )
    assert killed.returncode == -9
    assert (file.read_bytes() if file.exists() else None) == (b"old" if is_there else None)


def test_a_full_disk_leaves_no_part_of_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mocketmq.client.operations import write_whole_file

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "f.mocketmq"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole_file(file, b"new")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("f.mocketmq", b"old")]
