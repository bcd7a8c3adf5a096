"""Makes lateness reports by running ``mocketmq report --quick`` in a separate process.

The report package is an optional extra, which the broker never imports (docs/architecture.md, "The report").
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import ReportError, ReportNotFoundError, StoppingError
from mocketmq.own_command import own_command

MOST_S: Final = 600.0
"""Real seconds after which the report process is killed."""
_NICE: Final = 10
"""Niceness of the report process, so that it does not slow the broker down."""
_LINE_BYTES: Final = 1 << 20
"""Maximum length of a line of the command's output, in bytes."""
STEPS: Final = ("starting", "reading", "measuring", "making tables", "writing")
"""The steps of a report, in order. Among other lines, the command prints each step except the first."""


class MadeReport(msgspec.Struct, frozen=True):
    """A report's page, and the broker's time of its request. Anyone who knows the name can see the page."""

    name: str
    html: bytes
    at_us: int


class Reports:
    """Makes one report at a time, and keeps the newest page."""

    def __init__(self, broker: Broker, data: str) -> None:
        self._broker = broker
        self._data = data
        self.newest: MadeReport | None = None
        self._making: asyncio.Task[MadeReport] | None = None
        self._closed = False
        self._step = 0

    async def make(self) -> MadeReport:
        """Make a report of the whole store, or wait for the report that is being made.

        Raises ReportError, StoreError, StoppingError.
        """
        if self._closed:
            raise StoppingError("the broker is stopping")
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="report")
            self._making.add_done_callback(lambda made: made.cancelled() or made.exception())
        return await asyncio.shield(self._making)  # shielded: others may wait for the same report

    @property
    def step(self) -> int:
        """The current step of the report being made, counted from 1; 0 if no report is being made."""
        return 0 if self._making is None or self._making.done() else self._step

    def page(self, name: str) -> bytes:
        """The page of the newest report. Raises ReportNotFoundError for any other name."""
        if self.newest is None or self.newest.name != name:
            raise ReportNotFoundError("only the newest report is kept, and this one is older; make another")
        return self.newest.html

    async def close(self) -> None:
        """Cancel the report that is being made."""
        self._closed = True
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> MadeReport:
        import secrets  # noqa: PLC0415 - most brokers make no report
        from tempfile import TemporaryDirectory  # noqa: PLC0415

        at_us, database = self._broker.clock.now_us(), self._broker.store.database
        self._step = 1
        with TemporaryDirectory(prefix="mocketmq-report-", ignore_cleanup_errors=True) as folder:
            data = title = self._data
            if database.is_in_memory:
                data, title = folder, "a broker in memory"
                await database.copy_to(folder)
            out = Path(folder, "report")
            arguments = ("--out", str(out), "--title", title, "--as-of", str(at_us // US_PER_MS), "--", data)
            await _run(self._tell, *arguments)
            self.newest = MadeReport(secrets.token_urlsafe(16), (out / "report.html").read_bytes(), at_us)
        return self.newest

    def _tell(self, line: str) -> None:
        """Record the current step if the line announces one."""
        if line in STEPS:
            self._step = STEPS.index(line) + 1


async def _run(tell: Callable[[str], None], *arguments: str) -> None:
    """Make a report in a child process, and pass each line of its output to ``tell``. Raises ReportError."""
    command: Sequence[str] = (*own_command(), "report", "--quick", *arguments)
    nobody, heard = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nobody, stdout=nobody, stderr=heard, limit=_LINE_BYTES
    )
    assert process.stderr is not None  # noqa: S101 - stderr is a pipe
    told: list[bytes] = []
    try:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        async with asyncio.timeout(MOST_S):
            async for line in process.stderr:
                told.append(line)
                tell(line.decode(errors="replace").strip())
            await process.wait()
    except TimeoutError:
        raise ReportError(
            f"the report took longer than {MOST_S:.0f} s and was stopped; `mocketmq report` has no limit"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        _, _, reason = b"".join(told).decode(errors="replace").rpartition("Error: ")
        raise ReportError(" ".join(reason.split()) or f"its process ended with code {process.returncode}")
