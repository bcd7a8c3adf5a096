"""The log of a command that runs until it is stopped: lines on stderr. No other command needs ``logging``."""

import logging
import sys

from mocketmq.cli.text import harmless


class _Formatter(logging.Formatter):
    """Log lines name what clients sent, such as their ids; a terminal obeys control characters in these."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record), "\n")  # of a stack


def log_to_stderr() -> None:
    """Show log lines from warnings on, until a logger has another level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
