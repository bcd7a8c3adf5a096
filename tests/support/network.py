"""Free ports, and network namespaces: isolated networks on this machine where every port is free."""

import atexit
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

_reserved: Final = ExitStack()
atexit.register(_reserved.close)


def ip(*words: str, namespace: str | None = None, check: bool = True) -> None:
    """Run iproute2's ``ip``, inside a namespace if ``namespace`` is given."""
    subprocess.run((*inside(namespace), "ip", *words), check=check, capture_output=True)


def inside(namespace: str | None) -> tuple[str, ...]:
    """Return the command prefix that runs a command inside the namespace."""
    return ("ip", "netns", "exec", namespace) if namespace else ()


def quiet_port(*beside: int) -> int:
    """Return a free port whose neighbours at the offsets ``beside`` are free too, and which stays free.

    Tests use it to close a port and reopen it. The system never picks the port for connections of others,
    because it lies outside the range of ephemeral ports.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    numbers = range(12_000, 20_000) if lowest >= 20_000 else range(10_000, 60_000)
    return next(
        port
        for port in iter(lambda: random.SystemRandom().choice(numbers), None)
        if all(_is_free(port + each) for each in (0, *beside)) and reserve(port)
    )


def reserve(*ports: int) -> bool:
    """Reserve all of the ports until this process ends; return False if one is reserved already.

    So no two processes of tests take a port on which they listen only later. Each is bound as a port of UDP,
    which nothing here uses.
    """
    with ExitStack() as reserved:
        for port in ports:
            one = reserved.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
        _reserved.push(reserved.pop_all())
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def namespaces(*names: str) -> Iterator[None]:
    """Create these namespaces, each with a loopback interface; skip the test if that is not allowed."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    alone = ("unshare", "--net", "--mount", "ip", "link", "set", "lo", "up")
    if shutil.which("unshare") and subprocess.run(alone, check=False, capture_output=True).returncode:
        pytest.skip("this root may make no namespaces")
    try:
        for name in names:
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", namespace=name)
        yield
    finally:
        for name in names:
            ip("netns", "delete", name, check=False)
