"""Bits of a pull's sysFlag (PullSysFlag.java)."""

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4
