"""Wait for producers' answers to check-backs: a move of the clock does, before it goes on."""

import asyncio
from collections.abc import Collection, Iterable


class CheckAnswers:
    """Knows which half messages are asked about while a move waits, by commit offset."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Event] = {}

    def heard(self, commit_offset: int) -> None:
        """The producer of the half message has said something about it."""
        if commit_offset in self._awaited:
            self._awaited[commit_offset].set()

    async def wait(self, commit_offsets: Iterable[int], longest_s: float) -> Collection[int]:
        """Wait for answers about all, up to ``longest_s`` real seconds; about which there was none."""
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
