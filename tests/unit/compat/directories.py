"""Helpers for delay directories and their contents."""

from pathlib import Path

from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, FoundDirectory
from tests.support.delayed_files import DUE_MS

SECOND = DUE_MS // 1_000
BLOCK = 4_096


def names_in(path: Path) -> list[str]:
    return [each.name for each in path.iterdir()]


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def scanned(directory: DelayDirectory, since_ns: int = 0) -> tuple[list[FoundDirectory], list[str]]:
    everything = list(directory.scan(since_ns))
    found = [one for one in everything if isinstance(one, FoundDirectory)]
    return sorted(found), sorted(one for one in everything if isinstance(one, str))
