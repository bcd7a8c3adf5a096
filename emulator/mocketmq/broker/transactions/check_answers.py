"""Wait for producers' answers to check-backs, before a move of the clock goes on."""

import asyncio
from collections.abc import Collection, Iterable


class CheckAnswers:
    """The half messages, by commit offset, that a move of the clock awaits answers about."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Event] = {}

    def heard(self, commit_offset: int) -> None:
        """Note that the producer of the half message has answered."""
        if commit_offset in self._awaited:
            self._awaited[commit_offset].set()

    async def wait(self, commit_offsets: Iterable[int], longest_s: float) -> Collection[int]:
        """Wait up to ``longest_s`` real seconds for all answers; returns the half messages without one."""
        self._awaited = {commit_offset: asyncio.Event() for commit_offset in commit_offsets}
        try:
            async with asyncio.timeout(longest_s):
                for event in self._awaited.values():
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            awaited, self._awaited = self._awaited, {}
        return [commit_offset for commit_offset, event in awaited.items() if not event.is_set()]
