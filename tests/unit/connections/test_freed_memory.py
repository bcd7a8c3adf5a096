"""Giving memory back to the system."""

import ctypes
from collections.abc import Callable

import psutil
import pytest

from mocketmq.connections.freed_memory import give_back

MB = 1 << 20


def test_a_system_without_the_call_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Callable[[None], None]:
        def load(_: None) -> None:
            raise error

        return load

    for error in (OSError("no such library"), AttributeError("malloc_trim")):
        monkeypatch.setattr(ctypes, "CDLL", fail(error))
        give_back()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim")
def test_what_was_freed_returns() -> None:
    process = psutil.Process()
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    kept = blocks[-1:]  # above what is freed, and so in the way
    held = process.memory_info().rss
    blocks.clear()
    give_back()
    assert held - process.memory_info().rss > 100 * MB
    assert kept
