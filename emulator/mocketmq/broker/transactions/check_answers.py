"""Lets a clock move wait for producers' answers to check-backs."""

import asyncio
from collections.abc import Collection, Iterable


class CheckAnswers:
    """The half messages, by log offset, whose answers a clock move is waiting for."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Event] = {}

    def note(self, log_offset: int) -> None:
        """Note that the half message's producer has answered."""
        if log_offset in self._awaited:
            self._awaited[log_offset].set()

    async def wait(self, log_offsets: Iterable[int], longest_s: float) -> Collection[int]:
        """Wait up to ``longest_s`` real seconds for all answers. Returns the unanswered half messages."""
        self._awaited = {log_offset: asyncio.Event() for log_offset in log_offsets}
        try:
            async with asyncio.timeout(longest_s):
                for event in self._awaited.values():
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            awaited, self._awaited = self._awaited, {}
        return [log_offset for log_offset, event in awaited.items() if not event.is_set()]
