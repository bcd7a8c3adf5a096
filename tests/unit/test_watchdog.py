"""The watchdog logs once where the event loop is blocked, and logs when the loop runs again."""

import asyncio
import logging
import threading

import pytest

from mocketmq.watchdog import Watchdog
from tests.support.patience import HANGING_S

PERIOD_S = 0.01


class Records(logging.Handler):
    """Collects the watchdog's log lines, and sets an event for each line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.alarm, self.end = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self.lines.append(record.getMessage())
        (self.end if self.alarm.is_set() else self.alarm).set()


async def test_standstill_is_logged_once_with_its_stack_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records()
    monkeypatch.setattr(logging.getLogger("mocketmq.watchdog"), "handlers", [records])
    watchdog = Watchdog(PERIOD_S)
    handler_that_never_ends(records.alarm)
    assert await asyncio.to_thread(records.end.wait, HANGING_S)
    watchdog.close()
    alarm, end = records.lines
    assert "the event loop has not run for 0.1 s" in alarm
    assert "in handler_that_never_ends" in alarm
    assert "alarm.wait(HANGING_S)" in alarm
    assert end == "the event loop runs again"


def handler_that_never_ends(alarm: threading.Event) -> None:
    assert alarm.wait(HANGING_S)


async def test_running_loop_raises_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    threads = set(threading.enumerate())
    watchdog = Watchdog(PERIOD_S)
    (thread,) = set(threading.enumerate()) - threads
    turns = 0
    while turns < 1_000:
        await asyncio.sleep(0)
        turns += 1
    watchdog.close()
    await asyncio.to_thread(thread.join, HANGING_S)
    assert not thread.is_alive()
    assert not caplog.records


async def test_watchdog_ends_with_its_loop() -> None:
    threads = set(threading.enumerate())

    def run_loop() -> None:
        async def watch() -> None:
            Watchdog(PERIOD_S)

        asyncio.run(watch())

    await asyncio.to_thread(run_loop)
    for thread in set(threading.enumerate()) - threads:
        if thread.name == "watchdog":
            await asyncio.to_thread(thread.join, HANGING_S)
            assert not thread.is_alive()
