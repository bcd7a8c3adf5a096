"""Returning memory to the system."""

import ctypes
from collections.abc import Callable

import psutil
import pytest

from mocketmq.connections.freed_memory import give_back

MB = 1 << 20


def test_system_without_malloc_trim_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Callable[[None], None]:
        def load(_: None) -> None:
            raise error

        return load

    for error in (OSError("no such library"), AttributeError("malloc_trim")):
        monkeypatch.setattr(ctypes, "CDLL", fail(error))
        give_back()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim")
def test_freed_memory_is_returned() -> None:
    process = psutil.Process()
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    kept = blocks[-1:]  # lies above the freed blocks, and so keeps the heap from shrinking
    held = process.memory_info().rss
    blocks.clear()
    give_back()
    assert held - process.memory_info().rss > 100 * MB
    assert kept
