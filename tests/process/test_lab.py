"""A small lab: its measurements of real brokers, its refusals, and its end."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # comes with schemathesis
import psutil
import pytest

from mocketmq.cli import commands
from mocketmq.lab.laboratory import run_lab
from mocketmq.lab.load import Load, delay_property
from tests.support.brokers import rows
from tests.support.command_line import runner
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment

SCHEMA = Path(__file__).parents[2] / "docs" / "lab.schema.json"
TINY = ("--rate", "50", "--seconds", "1", "--delays", "1s", "--herd", "300", "--pending", "100,200,300")


async def started(*args: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mocketmq", "lab", *args),
        env=clean_environment() | {"MOCKETMQ_CLOCK": "manual"},  # its brokers must not see this
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["Spark", "quick"])
async def test_two_schemes_are_laid_side_by_side(tmp_path: Path, engine: str) -> None:
    out = tmp_path / "out"
    quick = ("--quick",) if engine == "quick" else ()
    process = await started("--schemes", "wheel,levels", *TINY, "--out", str(out), "--keep", "--json", *quick)
    async with asyncio.timeout(4 * HANGING_S):
        shown, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "wheel: 300 pending" in said.decode()
    made = json.loads(shown)
    assert made == json.loads((out / "lab.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(made)
    assert (made["spark"] == "none") is (engine == "quick")
    assert [each["name"] for each in made["subjects"]] == ["levels", "wheel"]
    assert not made["left_out"]
    for each in made["subjects"]:
        total, second = each["lateness"]
        assert (total["of"], total["measured"], total["early"], total["overdue"]) == ("all", 50, 0, 0)
        assert (second["of"], second["measured"], second["max_us"]) == ("1s", 50, total["max_us"])
        truth = rows(
            out / "data" / each["name"] / "load", "SELECT delivered_us - due_us AS us FROM deliveries"
        )
        assert total["max_us"] == max(row["us"] for row in truth)
        assert sum(moment["count"] for moment in each["timeline"]) == 50
        assert each["saves_per_second"] > 0
        if each["herd"]:  # on a very slow machine, the herd is due before the broker is ready, as a note says
            assert each["herd"]["late"]["measured"] == each["herd"]["messages"] == 300
        else:
            assert "the herd is not measured" in each["notes"][0]
        assert [step["pending"] for step in each["growth"]] == [0, 100, 200, 300]
        assert all(step["start_us"] > 0 for step in each["growth"])
        assert each["growth"][-1]["disk_bytes"] > each["growth"][0]["disk_bytes"]


def brokers_below(place: Path) -> list[psutil.Process]:
    """Return the broker processes whose data is in the folder."""
    return [each for each in psutil.process_iter() if any(str(place) in word for word in words(each))]


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has exited, or belongs to another user
        return []


@pytest.mark.parametrize(
    ("number", "during"),
    [
        (signal.SIGINT, b"50 messages a second"),
        pytest.param(signal.SIGTERM, b"a herd of 300", marks=pytest.mark.slow),
    ],
)
async def test_an_interrupted_lab_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, during: bytes
) -> None:
    process = await started("--schemes", "slots", *TINY, "--out", str(tmp_path / "out"))
    assert process.stderr
    async with asyncio.timeout(HANGING_S):
        while (line := await process.stderr.readline()) != b"slots: %b\n" % during:
            assert line, "it ended before"
        process.send_signal(number)
        shown, _ = await process.communicate()
    assert (process.returncode, shown) == (128 + number, b"")
    assert await asyncio.to_thread(brokers_below, tmp_path) == []
    assert names_in(tmp_path) == []


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_a_scheme_without_its_extra_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "rocksdict",
        "mocketmq_compat.delay.sorted.sorted_store",
        "mocketmq_compat.delay.sorted.rocks",
    ):
        monkeypatch.setitem(sys.modules, name, None)
    results = await run_lab(["sorted"], Load(), tmp_path, lambda *_: None, None)
    assert not results.measured
    [left] = results.skipped
    assert left.name == "sorted"
    assert "install mocketmq with its extra 'sorted'" in left.reason


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--schemes", "wheel,heap"), "'heap'; allowed: levels, directories, wheel, slots, sorted"),
        (("--delays", "1s,7s"), "'7s'; allowed: a delay level"),
        (("--schemes", "wheel", "--delays", "7s", "--name-server", "a:1"), "'7s'; allowed: a delay level"),
        (("--delays", "1x"), "'1x'; allowed: a duration"),
        (("--delays", "4d"), "'4d'; allowed: delays from 1ms to 3d"),
        (("--pending", "100,many"), "'100,many'; allowed: numbers of messages from 1 to 10,000,000"),
        (("--access-key", "me"), "give both --access-key and --secret-key, or neither"),
    ],
)
def test_errors_are_reported_before_anything_is_measured(
    args: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ended = runner().invoke(commands, ["lab", "--out", str(tmp_path / "out"), *args])
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert not (tmp_path / "out").exists()


def test_herd_is_sent_before_it_is_due() -> None:
    assert [each // 1_000_000 for each in Load(herd=5_000).herd_delays_us] == [5, 10, 30, 60]
    assert Load(herd=100_000).herd_delays_us[0] == 30_000_000
    assert delay_property("levels", 5_000_000) == {"DELAY": "2"}
    assert delay_property("wheel", 1_500_000) == {"TIMER_DELAY_MS": "1500"}
