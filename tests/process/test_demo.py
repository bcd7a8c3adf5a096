"""A small demo: a whole day through a real broker, its verdict, and its end."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import psutil
import pytest

from mocketmq.demo import LEVELS, Tallies
from tests.support.process import clean_environment

ROW = re.compile(
    r"^ *(\d+|retry|all) +(\S*) +([\d,]+) +([\d,]+) +(\d+) +(\d+) ms +(\d+) +(\d+) *$", re.MULTILINE
)


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def start_demo(*args: str, temporary: Path) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mocketmq", "demo", *args),
        env=clean_environment() | {"TMPDIR": str(temporary), "MOCKETMQ_CLOCK": "real"},
        stdout=PIPE,
        stderr=PIPE,
    )


async def test_demo_prints_a_row_for_each_level(tmp_path: Path) -> None:
    process = await start_demo("--messages", "2000", temporary=tmp_path)
    stdout, stderr = await process.communicate()
    assert (process.returncode, stderr) == (0, b"")
    rows = ROW.findall(stdout.decode())
    assert [row[0] for row in rows] == [*map(str, range(1, 19)), "retry", "all"]
    assert [row[1] for row in rows[:18]] == LEVELS.text.split()
    sent = [int(row[2].replace(",", "")) for row in rows]
    assert all(sent)
    assert sum(sent[:18]) == 2000
    assert all(row[2] == row[3] and row[4:] == ("0", "0", "0", "0") for row in rows)
    assert "every message came once, and none early" in stdout.decode()
    assert names_in(tmp_path) == []


async def test_the_store_is_kept_where_asked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = await start_demo("--messages", "1", "--data", str(data), temporary=tmp_path)
    await process.communicate()
    assert process.returncode == 0
    again = await start_demo("--data", str(data), temporary=tmp_path)
    _, stderr = await again.communicate()
    assert again.returncode == 2
    assert f"{data} is not empty" in stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = await start_demo(temporary=tmp_path)
    assert process.stdout
    assert b"the demo's broker is at http://" in await process.stdout.readline()
    (broker,) = psutil.Process(process.pid).children()
    process.send_signal(number)
    _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (130, b"")
    assert not broker.is_running()
    assert names_in(tmp_path) == []


def received(message_id: str, store_ms: int, attempt: int = 1) -> dict[str, Any]:
    return {"message_id": message_id, "store_ms": store_ms, "attempt": attempt}


@pytest.fixture
def expectations() -> Tallies:
    """Two messages of level 2 were sent, at 1 and 2 s; they are due 5 s later."""
    expectations = Tallies()
    expectations.sent(2, "a", 1_000)
    expectations.sent(2, "b", 2_000)
    return expectations


def test_tally_without_faults_is_clean(expectations: Tallies) -> None:
    expectations.received(received("a", 6_000))
    expectations.given_back(received("a", 6_000), 6_500)
    expectations.received(received("b", 7_007))
    assert expectations.total.lost == 1
    expectations.received(received("a", 16_500, attempt=2))
    assert expectations.is_clean
    assert (expectations.total.sent, expectations.total.delivered, expectations.total.latest_ms) == (3, 3, 7)


def test_tally_counts_every_fault(expectations: Tallies) -> None:
    expectations.received(received("a", 5_999))
    expectations.received(received("a", 6_001))
    expectations.received(received("c", 6_001))
    expectations.received(received("a", 6_001, attempt=2))
    tally = expectations.levels[1]
    assert (tally.early, tally.repeated, tally.lost, expectations.unknown) == (1, 1, 1, 2)
    assert not expectations.is_clean
