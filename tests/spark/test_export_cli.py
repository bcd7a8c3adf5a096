"""``mocketmq export``, with a running broker and without one."""

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset as ds
import pytest

from mocketmq import Client, MessageOptions
from mocketmq.cli import commands
from mocketmq.cli.exit_codes import Exit
from mocketmq.clock import wall_us
from tests.support.brokers import S
from tests.support.command_line import runner
from tests.support.process import forked_broker
from tests.support.stores import STORE, MadeStore

SENT = 200
EXPORTS = 3


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


def export(*args: str | Path) -> Ended:
    """Run the command in this process."""
    result = runner().invoke(commands, ["export", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def test_export_prints_the_written_files(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data").deliver(1)
    out = tmp_path / "out"
    ended = export(tmp_path / "data", out, "--json")
    size = sum(path.stat().st_size for path in out.rglob("*.parquet"))
    assert (ended.code, ended.stderr) == (Exit.DONE, "")
    assert json.loads(ended.stdout) == {"rows": 1, "runs": 1, "bytes": size, "files": 3}
    assert (out / "runs" / f"{STORE}.parquet").is_file()
    assert export(tmp_path / "data", out) == (
        Exit.DONE,
        f"exported 1 rows of 1 runs to {out}: 3 files, {size:,} bytes\n",
        "",
    )


def test_errors_have_a_sentence_and_an_exit_code(tmp_path: Path) -> None:
    assert export(tmp_path / "nowhere", tmp_path / "out").code == Exit.USAGE
    made = MadeStore(tmp_path / "data")
    made.run("DELETE FROM runs")
    sentence = f"Error: {made.database} has no runs: no broker was ever started on it\n"
    assert export(tmp_path / "data", tmp_path / "out") == (Exit.NOT_STARTED, "", sentence)


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mocketmq_report.ledger.export", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    sentence = (
        "Error: exporting needs pyarrow, which is not installed: install mocketmq with its extra 'report'\n"
    )
    assert export(tmp_path, tmp_path / "out") == (Exit.USAGE, "", sentence)


def test_a_missing_module_of_mocketmq_is_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mocketmq_report.ledger.export", raising=False)
    monkeypatch.setitem(sys.modules, "mocketmq_report.ledger.store_snapshot", None)
    result = runner().invoke(commands, ["export", str(tmp_path), str(tmp_path / "out")])
    assert isinstance(result.exception, ModuleNotFoundError)


async def test_every_message_exists_once_beside_a_running_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    sent: list[str] = []
    began_us = wall_us()
    async with (
        forked_broker("--data", str(data), "--levels", "0s 1h") as process,
        Client(process.url) as broker,
    ):

        async def send(number: int) -> None:
            options: MessageOptions = {"delay_level": 1 + number % 2} if number % 4 else {"delay_ms": 20}
            sent.append((await broker.send("orders", "hello", **options))["message_id"])

        async def send_more() -> None:
            for number in range(1, SENT):
                await send(number)

        await send(0)
        sending = asyncio.create_task(send_more())
        for number in range(EXPORTS):
            before = set(sent)
            ended = await asyncio.to_thread(export, data, tmp_path / str(number))
            assert ended.code == Exit.DONE, ended
            rows = ds.dataset(tmp_path / str(number) / "deliveries").to_table(["message_id", "state"])
            found = rows["message_id"].to_pylist()
            assert len(set(found)) == len(found)
            assert before <= set(found)
            assert set(rows["state"].to_pylist()) <= {"delivered", "pending"}
        await sending
        assert set(found) <= set(sent)
        [as_of_us] = ds.dataset(tmp_path / str(number) / "runs").to_table()["as_of_us"].to_pylist()
        assert began_us - S < as_of_us < wall_us() + S  # the clocks need not agree to the microsecond
        assert (await broker.send("orders", "still there"))["message_id"]
