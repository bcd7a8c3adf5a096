"""Bits of a pull's sysFlag (PullSysFlag.java)."""

from typing import Final

COMMIT_OFFSET: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
