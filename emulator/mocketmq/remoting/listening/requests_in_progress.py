"""The requests of a connection that have no response yet, their memory, and the limits on both.

A request runs in a task, waits in a task as a long poll, or is on the fast path, which needs no task. Long
polls have limits of their own, so that a client's other requests are still read while its long polls wait.
"""

import asyncio
from typing import Final, NamedTuple, Protocol

from mocketmq.remoting.wire.command import Command

_REQUEST_BYTES: Final = 1 << 10
"""Approximate memory that a request needs besides its frame, in bytes."""
_FIELD_BYTES: Final = 160
_USUAL_FIELDS: Final = 32
"""Memory of an ext field besides its text, in bytes; number of fields that ``_REQUEST_BYTES`` covers."""

Task = asyncio.Task[None]


class ConnectionLimits(NamedTuple):
    """The limits on the requests of one connection, and on the waiting long polls of all connections."""

    running: int = 1_024
    running_bytes: int = 32 << 20
    """Limits on requests in progress. At either limit, reading pauses until some of them are answered."""
    waiting_bytes: int = 4 << 20
    waiting_bytes_together: int = 64 << 20
    """Limits on waiting long polls. Further ones are not held, so that heartbeats are still read."""


class AllConnections(Protocol):
    """The state that connections share: their limits, and the memory of all waiting long polls."""

    limits: ConnectionLimits
    waiting_bytes: int


class RequestsInProgress:
    """The requests of one connection that have no response yet.

    ``running_bytes`` is the memory of requests in tasks and on the fast path, without waiting long polls.
    ``unbegun`` is the number of tasks that have not begun, and that no later request may overtake.
    """

    def __init__(self, connections: AllConnections) -> None:
        self.running_bytes = 0
        self.unbegun = 0
        self._connections = connections
        self._running: dict[Task, int] = {}
        self._reading: set[Task] = set()  # running requests to cancel when the client disconnects
        self._waiting: dict[Task, int] = {}
        self._waiting_bytes = 0
        self._on_fast_path = 0
        self._fast_path_idle = asyncio.Event()

    @property
    def is_fast_path_idle(self) -> bool:
        """Whether no request is on the fast path."""
        return not self._on_fast_path

    @property
    def have_run(self) -> bool:
        """Whether all requests but waiting long polls have ended."""
        return not self._running and not self._on_fast_path

    @property
    def is_at_limit(self) -> bool:
        """Whether no further request may be read."""
        limits = self._connections.limits
        running = len(self._running) + self._on_fast_path
        return running >= limits.running or self.running_bytes >= limits.running_bytes

    def may_wait(self, size: int) -> bool:
        """Whether a long poll of this size may wait."""
        limits, together = self._connections.limits, self._connections.waiting_bytes + size
        own = self._waiting_bytes + size
        return own <= limits.waiting_bytes and together <= limits.waiting_bytes_together

    def wait(self, task: Task, size: int) -> None:
        """Add a long poll, which waits in this task."""
        self._waiting[task] = size
        self._change_waiting(size)
        task.add_done_callback(self._has_waited)

    def _has_waited(self, task: Task) -> None:
        self._change_waiting(-self._waiting.pop(task))

    def _change_waiting(self, size: int) -> None:
        self._waiting_bytes += size
        self._connections.waiting_bytes += size

    def run(self, task: Task, size: int, *, is_reading: bool) -> None:
        """Add a request that runs in this task. If ``is_reading``, ``cancel_reads`` cancels it."""
        self._running[task] = size
        if is_reading:
            self._reading.add(task)
        self.running_bytes += size
        task.add_done_callback(self._task_has_run)

    def _task_has_run(self, task: Task) -> None:
        self.running_bytes -= self._running.pop(task)
        self._reading.discard(task)

    def begin_fast(self, count: int, size: int) -> None:
        """Add requests on the fast path that use ``size`` bytes of memory."""
        self._on_fast_path += count
        self.running_bytes += size

    def end_fast(self, count: int, size: int) -> None:
        """Remove answered requests from the fast path."""
        self._on_fast_path -= count
        self.running_bytes -= size
        if not self._on_fast_path:
            self._fast_path_idle.set()

    def cancel_reads(self) -> None:
        """Cancel long polls and the other requests that only read."""
        for task in (*self._waiting, *self._reading):
            task.cancel()

    def cancel(self) -> None:
        """Cancel all requests in tasks."""
        for task in (*self._running, *self._waiting):
            task.cancel()

    async def end(self) -> None:
        """Wait until no request is in progress."""
        await asyncio.gather(*self._running, *self._waiting, return_exceptions=True)
        while self._on_fast_path:
            self._fast_path_idle.clear()
            await self._fast_path_idle.wait()


def memory_of(request: Command) -> int:
    """Approximate memory of a request in progress, in bytes."""
    more = _FIELD_BYTES * max(len(request.ext) - _USUAL_FIELDS, 0) if request.values is None else 0
    return _REQUEST_BYTES + more + request.frame_bytes
