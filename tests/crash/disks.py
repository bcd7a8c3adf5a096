"""Disks that are full until the test frees them."""

import errno
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from mocketmq.store.database import FILE_NAME
from tests.support.process import BrokerProcess

_CAP_SYS_ADMIN = 21


class Disk(Protocol):
    """A disk for one broker. A write on the full disk fails with ``error``."""

    directory: Path
    error: int

    def fill(self, broker: BrokerProcess, *, room: int = 0) -> None:
        """Fill the disk, except for ``room`` bytes."""

    def free(self, broker: BrokerProcess) -> None:
        """Remove the limit."""


class SmallFilesystem:
    """A real file system, filled by a ballast file."""

    error = errno.ENOSPC

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def fill(self, broker: BrokerProcess, *, room: int = 0) -> None:  # noqa: ARG002 - see Disk
        with self._ballast.open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
            ballast.truncate(max(ballast.tell() - room, 0))

    def free(self, broker: BrokerProcess) -> None:  # noqa: ARG002 - see Disk
        self._ballast.unlink()


class WriteLimit:
    """The kernel's limit on file sizes, which hits the log first. Needs no privileges."""

    error = errno.EFBIG

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self, broker: BrokerProcess, *, room: int = 0) -> None:
        log = self.directory / f"{FILE_NAME}-wal"
        self._limit(broker, log.stat().st_size + room if room else 0)

    def free(self, broker: BrokerProcess) -> None:
        self._limit(broker, resource.RLIM_INFINITY)

    def _limit(self, broker: BrokerProcess, size: int) -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_filesystem(directory: Path) -> Iterator[SmallFilesystem]:
    """A small file system, mounted during a test."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", directory], check=True)  # noqa: S607
    try:
        yield SmallFilesystem(directory)
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)  # noqa: S607


@contextmanager
def write_limit(directory: Path) -> Iterator[WriteLimit]:
    """Limit the size of files during a test."""
    yield WriteLimit(directory)


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    status = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    return bool(effective >> _CAP_SYS_ADMIN & 1)


DISKS = [write_limit, small_filesystem] if can_mount() else [write_limit]
