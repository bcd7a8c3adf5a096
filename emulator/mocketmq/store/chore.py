"""Periodic background work."""

import asyncio
import logging
from abc import ABC, abstractmethod

from mocketmq.errors import EmulatorError, StoreFailedError

log = logging.getLogger(__name__)


class Chore(ABC):
    """Owns the task that calls ``turn`` every ``interval_s`` real seconds."""

    name: str
    interval_s: float

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def turn(self) -> object:
        """Do the pending work; check ``is_closing`` between steps."""

    @property
    def is_closing(self) -> bool:
        """Whether a turn should end early."""
        return self._closing.is_set()

    def start(self) -> asyncio.Task[None]:
        """Begin in the background."""
        self._task = asyncio.create_task(self._run(), name=self.name)
        return self._task

    async def close(self) -> None:
        """Stop after the current step. May be called twice."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.is_closing:
            try:
                await self.turn()
            except StoreFailedError:  # already logged; nothing can be written before a restart
                await self._closing.wait()
            except EmulatorError as error:
                log.warning("%s failed and will be tried again: %s", self.name, error)
            try:
                async with asyncio.timeout(self.interval_s):
                    await self._closing.wait()
            except TimeoutError:
                continue
