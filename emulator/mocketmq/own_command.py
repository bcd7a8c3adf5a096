"""The command line with which this installation runs another ``mocketmq`` process."""

import sys


def own_command() -> list[str]:
    """Return the command line of ``mocketmq`` without a subcommand, for a bundle or for this Python."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    return [sys.executable, "-P", "-m", "mocketmq"]  # -P: ignore modules in the working directory
