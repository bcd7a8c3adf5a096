"""Logging to stderr, only for commands that run until they are stopped; others do not import ``logging``."""

import logging
import sys

from mocketmq.cli.text import harmless


class _Formatter(logging.Formatter):
    """Escapes control characters, because a terminal would obey those in text from clients."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record), "\n")  # a stack has newlines


def log_to_stderr() -> None:
    """Show log lines from level warning on, unless a logger sets another level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
