"""Records a process's activities: garbage collections, turns of its event loop, work in its threads."""

import asyncio
import gc
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

from mocketmq.clock import US_PER_MS, wall_us
from tests.bench.causes import BLOCKED, BUSY, CPU_PRESSURE, GARBAGE, IO_PRESSURE, LOOP, WAITS, Mark

LEAST_US: Final = 1_000
"""Minimum duration of recorded activities."""
_STEP_S: Final = 0.002
_SAMPLE_S: Final = 0.02
_PRESSURES: Final = {CPU_PRESSURE: "/proc/pressure/cpu", IO_PRESSURE: "/proc/pressure/io"}


class Marks:
    """Activities of a process; ``who`` prefixes names of activities that every process has."""

    def __init__(self, who: str = "") -> None:
        self.marks: list[Mark] = []
        self.pauses: list[tuple[int, int, int]] = []  # generation, begin and end
        self.counts: Counter[str] = Counter()
        self._who = who
        self._pause_began_us = 0

    def add(self, kind: str, begin_us: int, end_us: int) -> None:
        """Record an activity unless it was too short."""
        if end_us - begin_us >= LEAST_US:
            self.marks.append(Mark(kind, begin_us, end_us))

    def collecting(self, phase: str, info: dict[str, Any]) -> None:
        """A callback for ``gc.callbacks``."""
        now_us = wall_us()
        if phase == "start":
            self._pause_began_us = now_us
            return
        self.pauses.append((info["generation"], self._pause_began_us, now_us))
        self.add(self._who + GARBAGE, self._pause_began_us, now_us)

    async def watch_loop(self) -> None:
        """Note delays of this loop beyond a sleep of two milliseconds."""
        while True:
            stopwatch = Stopwatch()
            await asyncio.sleep(_STEP_S)
            end_us, state = stopwatch.stop(asleep_us=int(_STEP_S * 1e6))
            self.add(f"{self._who}{LOOP} {state}", stopwatch.begin_us + int(_STEP_S * 1e6), end_us)

    async def watch_machine(self) -> None:
        """Note when tasks of any process wait for a CPU, or for disks, more than half of the time."""
        files: dict[str, int] = {}
        for kind, path in _PRESSURES.items():
            with suppress(OSError):  # not on every kernel
                files[kind] = os.open(path, os.O_RDONLY)
        try:
            before = {kind: _stalled_us(file) for kind, file in files.items()}
            while True:
                began_us = wall_us()
                await asyncio.sleep(_SAMPLE_S)
                now_us = wall_us()
                for kind, file in files.items():
                    stalled_us = _stalled_us(file)
                    if 2 * (stalled_us - before[kind]) > now_us - began_us:
                        self.add(kind, began_us, now_us)
                    before[kind] = stalled_us
        finally:
            for file in files.values():
                os.close(file)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this process's collector, this loop and the machine."""
        gc.callbacks.append(self.collecting)
        tasks = [asyncio.create_task(each) for each in (self.watch_loop(), self.watch_machine())]
        try:
            yield
        finally:
            gc.callbacks.remove(self.collecting)
            for task in tasks:
                task.cancel()

    def save(self, path: Path) -> None:
        """Write everything to a file."""
        saved = {"marks": self.marks, "pauses": self.pauses, "counts": self.counts}
        path.write_text(json.dumps(saved))

    def since(self, instant_us: int) -> "Marks":
        """Return the activities from an instant on; counts include all activities."""
        later = Marks(self._who)
        later.marks = [mark for mark in self.marks if mark.end_us >= instant_us]
        later.pauses = [pause for pause in self.pauses if pause[2] >= instant_us]
        later.counts = self.counts
        return later

    @classmethod
    def load(cls, path: Path) -> "Marks":
        """Load the notes that another process has saved."""
        saved = json.loads(path.read_text())
        loaded = cls()
        loaded.marks = [Mark(*each) for each in saved["marks"]]
        loaded.pauses = [(generation, begin, end) for generation, begin, end in saved["pauses"]]
        loaded.counts.update(saved["counts"])
        return loaded


class Stopwatch:
    """Measures work in this thread from its creation."""

    def __init__(self) -> None:
        self.begin_us = wall_us()
        self._cpu_ns, self._queued_ns = thread_time_ns(), _queued_ns()

    def stop(self, asleep_us: int = 0) -> tuple[int, str]:
        """Return the end, and what the thread mostly did, apart from ``asleep_us`` of sleep."""
        end_us = wall_us()
        busy_us = (thread_time_ns() - self._cpu_ns) // 1_000
        queued_us = (_queued_ns() - self._queued_ns) // 1_000
        blocked_us = end_us - self.begin_us - asleep_us - busy_us - queued_us
        states = {BUSY: busy_us, WAITS: queued_us, BLOCKED: blocked_us}
        return end_us, max(states, key=lambda state: states[state])


class _Schedstat(threading.local):
    """A thread's file with its waiting time for a CPU; -1 where the kernel has none."""

    def __init__(self) -> None:
        self.file = -1
        with suppress(OSError):
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # until the process ends


_schedstat = _Schedstat()


def _queued_ns() -> int:
    """Return the nanoseconds that this thread has waited for a CPU."""
    return int(os.pread(_schedstat.file, 100, 0).split()[1]) if _schedstat.file >= 0 else 0


def _stalled_us(file: int) -> int:
    """Return the microseconds that some task has waited, from a file of /proc/pressure."""
    return int(os.pread(file, 300, 0).partition(b"total=")[2].split()[0])


def in_ms(values_us: list[int]) -> list[float]:
    """Microseconds as milliseconds."""
    return [value / US_PER_MS for value in values_us]
