"""How this installation runs another ``mocketmq`` in a process of its own."""

import sys


def own_command() -> list[str]:
    """The command line of ``mocketmq``, without a command: of a bundle or of this Python."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    return [sys.executable, "-P", "-m", "mocketmq"]  # -P: no module of the working directory hides one
