"""Logs once when exports of telemetry begin to fail, and once when they succeed again.

OpenTelemetry's SDK logs each failed attempt. This handler keeps the SDK's lines out of the broker's log, and
uses the last line as the reason.
"""

import logging
import threading
from typing import Final

log = logging.getLogger(__name__)

_SDK: Final = "opentelemetry"


class ExportLog(logging.Handler):
    """The state of the exports to an endpoint. Any thread may call its methods."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self._reason = ""
        self._failing: set[str] = set()
        self._state_lock = threading.Lock()
        self._sdk = logging.getLogger(_SDK)
        self._propagated = self._sdk.propagate
        self._sdk.propagate = False
        self._sdk.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the SDK's line as the reason for a failure."""
        self._reason = record.getMessage()[:500]

    def note_export(self, signal: str, *, is_done: bool) -> None:
        """Log the result of an export of traces or metrics, if it differs from the previous result."""
        with self._state_lock:
            if is_done == (signal not in self._failing):
                return
            (self._failing.discard if is_done else self._failing.add)(signal)
        if is_done:
            log.info("exporting %s to %s works again", signal, self._endpoint)
        else:
            log.warning(
                "cannot export %s to %s: %s; they are dropped until an export succeeds, which is logged;"
                " further failures are not",
                signal,
                self._endpoint,
                self._reason or "the collector refused them",
            )

    def close(self) -> None:
        """Return the SDK's lines to their usual handlers."""
        self._sdk.removeHandler(self)
        self._sdk.propagate = self._propagated
        super().close()
