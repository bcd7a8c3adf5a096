"""``mocketmq verify`` reports damage in a data directory without changing the directory."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.cli import commands
from mocketmq.cli.exit_codes import Exit
from mocketmq.store.database import FILE_NAME
from mocketmq.store.tables import HEAD_REVISION
from tests.support.command_line import Ended, runner
from tests.support.damage import zero_root
from tests.support.process import broker_process, clean_environment, forked_broker


def verify(data: Path | str, *args: str) -> Ended:
    result = runner(MOCKETMQ_DATA=None).invoke(commands, ["verify", "--data", str(data), *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def answer(data: Path, code: int = Exit.DONE) -> Any:
    ended = verify(data, "--json")
    assert (ended.code, ended.stderr) == (code, ""), ended
    return json.loads(ended.stdout)


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """The directory of a cleanly stopped broker, with a message and a pending message in a file."""
    data = tmp_path / "data"
    async with forked_broker("--data", str(data)) as broker, Client(broker.url) as client:
        await client.send("orders", "one")
        await client.send("orders", "two", delay_ms=3_600_000)
    return data


def contents(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_a_sound_directory_passes_and_is_not_changed(data: Path) -> None:
    before = contents(data)
    found = answer(data)
    assert (found["is_good"], found["database"]["damage"], found["database"]["schema"]) == (
        True,
        [],
        HEAD_REVISION,
    )
    [delayed] = found["delayed"]
    assert (delayed["directory"], delayed["messages"]) == (str(data / "delay"), 1)
    shown = verify(data)
    assert (shown.code, shown.stderr) == (Exit.DONE, "")
    assert shown.stdout.count("no problems") == 2
    assert contents(data) == before


def test_a_terminal_shows_which_table_is_checked(data: Path) -> None:
    slow = "from mocketmq.cli import progress_line as line; from itertools import count"
    slow += "; steps = count(0, 600_000); line.steady_us = lambda: next(steps)"
    program = f"{slow}; from mocketmq.cli import main; main()"
    terminal, slave = pty.openpty()
    with os.fdopen(slave, "wb") as stderr:
        ended = subprocess.run(
            [sys.executable, "-c", program, "verify", "--data", str(data)],
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=True,
        )
    with os.fdopen(terminal, "rb", buffering=0) as output:
        seen = output.read(65_536)
    assert b"checking table " in seen
    assert ended.stdout.count(b"\n") == 2


def test_a_damaged_table_is_named(data: Path) -> None:
    zero_root(data, "groups")
    found = answer(data, Exit.DAMAGED)
    assert not found["is_good"]
    assert {each["table"] for each in found["database"]["damage"]} == {"groups"}
    shown = verify(data)
    assert shown.code == Exit.DAMAGED
    assert f"{FILE_NAME}: " in shown.stdout
    assert "restore the directory from a copy" in shown.stdout


def test_a_damaged_file_of_a_delayed_message_is_named(data: Path) -> None:
    [file] = (data / "delay").rglob("*.msg")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    found = answer(data, Exit.DAMAGED)
    assert (found["is_good"], found["database"]["damage"]) == (False, [])
    [problem] = found["delayed"][0]["problems"]
    shown = verify(data).stdout
    assert f"delay/{problem['file']}" in shown
    assert problem["reason"] in shown


def test_an_older_schema_is_reported(data: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0009'")
    assert f"schema 0009, which the next start upgrades to {HEAD_REVISION}" in verify(data).stdout


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE alembic_version SET version_num = '9999'",
            "has schema 9999; this version supports schemas up to",
        ),
        ("DROP TABLE alembic_version", "is a database of another program"),
    ],
)
def test_store_of_an_unknown_version_is_reported(data: Path, statement: str, sentence: str) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection, connection:
        connection.execute(statement)
    ended = verify(data)
    assert (ended.code, ended.stdout) == (Exit.NOT_STARTED, "")
    assert sentence in ended.stderr


def test_a_directory_without_a_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder" / FILE_NAME).mkdir(parents=True)
    for name, code, sentence in (
        ("none", Exit.USAGE, "is not a data directory"),
        ("empty", Exit.NOTHING, f"is not a data directory: it has no {FILE_NAME}"),
        ("folder", Exit.NOT_STARTED, "it is a directory; allowed: a database file"),
    ):
        ended = verify(tmp_path / name)
        assert ended.code == code, ended
        assert sentence in ended.stderr
    assert verify(":memory:").code == Exit.USAGE


async def test_killed_store_is_verified_with_its_write_ahead_log(tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path)) as broker, Client(broker.url) as client:
        await client.send("orders", "one")
        broker.kill()
        await broker.wait()
    (tmp_path / f"{FILE_NAME}-shm").unlink()  # as in a copy without it
    files = contents(tmp_path)
    assert answer(tmp_path)["is_good"]
    assert contents(tmp_path) == files
    before = (tmp_path / f"{FILE_NAME}-wal").read_bytes()
    header = bytes(byte ^ 0xFF for byte in before[:32])
    (tmp_path / f"{FILE_NAME}-wal").write_bytes(header + before[32:])
    ended = verify(tmp_path)
    assert ended.code == Exit.NOT_STARTED
    assert "has a broken header" in ended.stderr


async def test_verify_works_beside_a_running_broker(tmp_path: Path) -> None:
    async with broker_process("--data", str(tmp_path)) as broker, Client(broker.url) as client:
        for number in range(50):
            await client.send("orders", str(number))
        files = set(contents(tmp_path))
        assert answer(tmp_path)["is_good"]
        assert set(contents(tmp_path)) == files
        await client.send("orders", "after")
