"""A broker in a separate process, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_STARTED: Final = re.compile(r"^mocketmq \S+ is ready.*?(https?://\S+:\d+)")
_LAST_LINES: Final = 20
_STOP_S: Final = 10.0
"""Time limit in real seconds for a clean stop of the broker."""


class StartError(Exception):
    """The broker did not become ready. The message ends with the last lines of its output.

    ``code`` is the exit code, if the broker has ended.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class BrokerProcess:
    """``mocketmq serve``, ready for requests at ``url``.

    Runs in its own process group, so that Ctrl-C ends the tests first. Raises StartError.
    """

    def __init__(self, command: Sequence[str], ready_s: float) -> None:
        self.url = ""
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._has_told = threading.Event()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the project's own command
                command,
                stdin=subprocess.PIPE,  # when this process dies, the pipe closes and the broker stops
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise StartError(f"mocketmq_command cannot be run: {error}") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        in_time = self._has_told.wait(ready_s)
        if not self.url:
            code = self._code() if in_time else None
            self.stop()
            late = f"was not ready in {ready_s:g} s"
            why = late if code is None else f"did not start: it ended {self._end}"
            raise StartError(f"the broker {why}\n{' '.join(command)}\n{self.last_lines}", code)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def death(self) -> str:
        """A sentence on how the process ended."""
        return f"the broker died {self._end}"

    @property
    def _end(self) -> str:
        code = self._code()
        if code is not None and code < 0:
            with suppress(ValueError):  # a signal without a name
                return f"by {signal.Signals(-code).name}"
        return f"with exit code {code}"

    @property
    def last_lines(self) -> str:
        """The last lines of its output."""
        return "\n".join(self._lines) or "(it wrote nothing)"

    def stop(self) -> None:
        """Stop the process by SIGTERM, or by SIGKILL if that takes too long. May be called twice."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
            self._process.wait()
        self._reader.join(_STOP_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None  # noqa: S101 - both are pipes
            stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        for line in self._process.stdout:
            self._lines.append(line.rstrip())
            if not self.url and (started := _STARTED.match(line)):
                self.url = started[1].replace("//0.0.0.0:", "//127.0.0.1:")  # a container listens everywhere
                self._has_told.set()
        self._has_told.set()

    def _code(self) -> int | None:
        """Return the exit code, after a short wait, because the output may end first."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP_S)
        return None

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole group: the command may be a script that waits for the broker."""
        if self._process.poll() is not None:
            return
        if sys.platform == "win32":
            self._process.terminate()
        else:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _environment() -> dict[str, str]:
    """The environment without the broker's settings, and without the project's module paths."""
    found = {name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")}
    home = Path(__file__).resolve().parents[2]
    if all(Path(place).resolve() != home for place in found.get("PYTHONPATH", "").split(os.pathsep)):
        found.pop("PYTHONPATH", None)
    return found
