"""Network namespaces: networks of their own on this machine, where every port is free."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def ip(*words: str, namespace: str | None = None, check: bool = True) -> None:
    """Run iproute2's ``ip``, inside a namespace if one is named."""
    subprocess.run((*inside(namespace), "ip", *words), check=check, capture_output=True)


def inside(namespace: str | None) -> tuple[str, ...]:
    """The words before a command that is to run there."""
    return ("ip", "netns", "exec", namespace) if namespace else ()


@contextmanager
def namespaces(*names: str) -> Iterator[None]:
    """Make these, each with a loopback; skip the test where that is not allowed."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    try:
        for name in names:
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", namespace=name)
        yield
    finally:
        for name in names:
            ip("netns", "delete", name, check=False)
