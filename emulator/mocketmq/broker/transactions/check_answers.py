"""Wait for producers' answers to check-backs, before a move of the clock goes on."""

import asyncio
from collections.abc import Collection, Iterable


class CheckAnswers:
    """The half messages, by log offset, that a move of the clock awaits answers about."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Event] = {}

    def heard(self, log_offset: int) -> None:
        """Note that the producer of the half message has answered."""
        if log_offset in self._awaited:
            self._awaited[log_offset].set()

    async def wait(self, log_offsets: Iterable[int], longest_s: float) -> Collection[int]:
        """Wait up to ``longest_s`` real seconds for all answers; returns the half messages without one."""
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
