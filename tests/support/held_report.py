"""A lateness report that stays in progress until a test finishes it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = "<!doctype html><h1>The report</h1>"


class HeldReport:
    """Replaces the command that makes reports. ``tell`` reports a line of progress."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.tell: Callable[[str], None] = lambda _: None
        monkeypatch.setattr("mocketmq.http_api.reports._run", self._run)

    async def _run(self, tell: Callable[[str], None], *arguments: str) -> None:
        self.tell = tell
        self.began.set()
        await self.go_on.wait()
        out = Path(arguments[arguments.index("--out") + 1])
        await asyncio.to_thread(_write, out)


def _write(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "report.html").write_text(PAGE)
