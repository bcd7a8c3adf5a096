"""Helpers for delay directories and their contents."""

from collections.abc import Container
from contextlib import closing
from pathlib import Path

from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, FoundDirectory
from tests.support.delayed_files import DUE_MS

SECOND = DUE_MS // 1_000
BLOCK = 4_096


def names_in(path: Path) -> list[str]:
    return [each.name for each in path.iterdir()]


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def await_next_time(root: Path) -> None:
    """Wait, for some milliseconds, until the file system gives changes another time than before."""
    with closing(DelayDirectory(root)) as directory:
        before_ns = directory.now_ns()
        while directory.now_ns() == before_ns:
            pass


def scanned(
    directory: DelayDirectory, known: Container[tuple[int, int]] = (), *, is_starting: bool = True
) -> tuple[list[FoundDirectory], list[str]]:
    """Scan for all but ``known`` seconds, each with the time of its last change."""
    everything = list(
        directory.scan(lambda second, stamp: (second, stamp.changed_ns) in known, is_starting=is_starting)
    )
    found = [one for one in everything if isinstance(one, FoundDirectory)]
    return sorted(found), sorted(one for one in everything if isinstance(one, str))
