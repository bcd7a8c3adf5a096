"""The rolling table of a real broker, through clock moves, a reset, a restart, and another store.

The broker is another process, because ADBC has its own SQLite, and two SQLites in one process do not see
each other's locks.
"""

import asyncio
import io
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from mocketmq import Client
from mocketmq.errors import StoreUnavailableError
from mocketmq_report.java import JavaError
from mocketmq_report.live import follow as module
from mocketmq_report.live.follow import follow
from tests.support.patience import HANGING_S
from tests.support.process import forked_broker
from tests.support.stores import MadeStore


class Screen:
    """The tables shown, one after another."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self._file = io.StringIO()
        self.console = Console(file=self._file, force_terminal=is_terminal, width=180)
        self._shown: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    def until(self) -> bool:
        """Return whether to stop; ``follow`` calls this after each table."""
        self._loop.call_soon_threadsafe(self._shown.put_nowait, self._file.getvalue())
        self._file.truncate(self._file.seek(0))
        return self._is_over

    def end(self) -> None:
        """End ``follow`` after the next table."""
        self._is_over = True

    def over(self, _following: object) -> None:
        """Record that ``follow`` has ended."""
        self._shown.put_nowait(None)

    async def _next(self) -> str:
        shown = await self._shown.get()
        assert shown is not None, "it has ended"
        return shown

    async def shows(self, words: str) -> str:
        """Wait for the next table that contains this text."""
        async with asyncio.timeout(HANGING_S):
            while words not in (shown := await self._next()):
                pass
        return shown

    async def counts_by_spark(self) -> None:
        """Wait until Spark has counted."""
        async with asyncio.timeout(HANGING_S):
            while "Spark is starting" in await self._next():
                pass

    async def row(self, level: str, delivered: str) -> list[str]:
        """Return the cells of a level, once this many deliveries are in the window."""
        async with asyncio.timeout(HANGING_S):
            while True:
                for line in (await self._next()).splitlines():
                    cells = line.split()
                    if cells and cells[0] == level and cells[2] == delivered:
                        return cells


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of temporary files, which must be empty at the end."""
    made = tmp_path / "tmp"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    monkeypatch.setattr(module, "TICK_S", 0.1)
    return made


@asynccontextmanager
async def started(data: Path) -> AsyncIterator[Client]:
    """Start a broker with a manual clock."""
    async with (
        forked_broker("--data", str(data), "--clock", "manual") as process,
        Client(process.url) as client,
    ):
        yield client


@asynccontextmanager
async def followed(
    spark: SparkSession, data: Path, *, is_terminal: bool = False, after: Event | None = None
) -> AsyncIterator[Screen]:
    """Follow with a Spark that is available at once, or ``after`` an event."""

    def starting() -> SparkSession:
        assert after is None or after.wait(HANGING_S)
        return spark

    screen = Screen(is_terminal=is_terminal)
    following = asyncio.create_task(
        asyncio.to_thread(follow, starting, data, window_s=60, console=screen.console, until=screen.until)
    )
    following.add_done_callback(screen.over)
    try:
        yield screen
    finally:
        screen.end()
        await following


def assert_empty(directory: Path) -> None:
    assert not list(directory.iterdir())


@pytest.mark.slow
async def test_follow_shows_a_broker_from_start_to_stop(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    data = tmp_path / "data"
    async with started(data) as broker:
        for level in (1, 1, 2):
            await broker.send("orders", "hello", delay_level=level)
        await broker.send("orders", "hello", delay_ms=3_000)
        await broker.advance("3s")
        async with followed(spark, data) as screen:
            late = ["0", "0", "0", "–"]
            assert await screen.row("1", "2") == ["1", "1s", "2", "0.4/s", *late, "0", "–", "2", "0", "–"]
            assert (await screen.row("2", "0"))[8] == "1"
            assert (await screen.row("other", "1"))[:2] == ["other", "any"]

            await screen.counts_by_spark()  # Spark continues to count through a reset
            await broker.advance("2h")
            await screen.shows("the clock was moved")
            assert (await screen.row("1", "0"))[-3:] == ["2", "0", "–"]
            await broker.send("orders", "hello", delay_level=3)
            await broker.advance("10s")
            assert (await screen.row("3", "1"))[-3:] == ["1", "0", "–"]

            await broker.send("orders", "hello", delay_level=3)
            await broker.reset(None)
            await screen.shows("the broker was reset")
            await broker.send("orders", "hello", delay_level=3)
            await broker.advance("10s")
            assert (await screen.row("3", "2"))[-3] == "2"
    assert_empty(temporary)


async def test_a_missing_broker_is_reported_and_awaited(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    data = tmp_path / "data"
    async with started(data) as broker:
        await broker.send("orders", "hello", delay_level=1)
        await broker.advance("1s")
    async with followed(spark, data) as screen:
        await screen.shows(f"no broker seems to be running on {data}")
        await screen.row("1", "1")
        async with started(data) as broker:
            assert "no broker" not in await screen.shows("the broker was started again")
            await broker.send("orders", "hello", delay_level=1)
            await broker.advance("1s")
            assert (await screen.row("1", "2"))[-3] == "2"
        shutil.rmtree(data)
        await screen.shows(f"{data}/mocketmq.db cannot be read: No such file or directory")
        async with started(data) as broker:
            await broker.send("orders", "hello", delay_level=2)
            await broker.advance("5s")
            said = await screen.shows("another store has taken its place, so counting starts again")
            assert "mocketmq.db" not in said
            assert (await screen.row("2", "1"))[-3] == "1"
            assert (await screen.row("1", "0"))[-3] == "0"
    assert_empty(temporary)


async def test_figures_appear_before_spark_is_ready(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    data, spark_is_there = tmp_path / "data", Event()
    async with started(data) as broker, followed(spark, data, after=spark_is_there) as screen:
        try:
            await screen.shows("nothing was delivered since 2")
            for level in (1, 1, 2):
                await broker.send("orders", "hello", delay_level=level)
            await broker.advance("2s")
            assert (await screen.row("1", "2"))[4:] == ["0", "0", "0", "–", "0", "–", "2", "0", "–"]
            assert "nothing was delivered" not in await screen.shows("Spark is starting; this process counts")
        finally:
            spark_is_there.set()
        await broker.advance("3s")
        assert (await screen.row("2", "1"))[-3:] == ["1", "0", "–"]
        await screen.counts_by_spark()
        await broker.send("orders", "hello", delay_level=1)
        await broker.advance("1s")
        assert (await screen.row("1", "3"))[-3:] == ["3", "0", "–"]
    assert_empty(temporary)


@pytest.mark.usefixtures("temporary")
def test_slow_spark_is_restarted(tmp_path: Path) -> None:
    starts = iter(["Python worker failed to connect back.", "another reason"])

    def fail() -> SparkSession:
        raise RuntimeError(next(starts))

    file = io.StringIO()
    with pytest.raises(RuntimeError, match="another reason"):
        follow(fail, MadeStore(tmp_path / "data").data, window_s=60, console=Console(file=file))
    assert "a process of Spark did not start in time, so counting starts again" in file.getvalue()


def test_failed_start_of_spark_ends_following(tmp_path: Path) -> None:
    def fail() -> SparkSession:
        raise JavaError("there is no java")

    console = Console(file=io.StringIO())
    with pytest.raises(JavaError):
        follow(fail, MadeStore(tmp_path / "data").data, window_s=60, console=console)


@pytest.mark.usefixtures("temporary")
async def test_a_terminal_shows_one_table(spark: SparkSession, tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "data")
    async with followed(spark, made.data, is_terminal=True) as screen:
        assert "\x1b[?25l" in await screen.shows("level")
        assert "\x1b[1A" in await screen.shows("level")  # moves up to the last table


def test_ctrl_c_ends_following_and_leaves_no_process(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    made = MadeStore(tmp_path / "data")

    def interrupt() -> bool:
        raise KeyboardInterrupt

    file = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        follow(lambda: spark, made.data, window_s=60, console=Console(file=file), until=interrupt)
    assert max(map(len, file.getvalue().splitlines())) > 80, "it is cut where no terminal limits it"
    assert_empty(temporary)
    assert not spark.streams.active


def test_missing_data_to_follow_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"nothing/mocketmq\.db .*No such file"):
        follow(lambda: spark, tmp_path / "nothing", window_s=60, console=Console(file=io.StringIO()))
