"""Base of state machines that drive a real broker: directory, event loop, and runs."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from mocketmq.broker.broker import Broker

EXAMPLES = os.environ.get("MODEL_EXAMPLES")
"""Environment variable with the number of random runs; without it, a few fixed runs."""

T = TypeVar("T")


class Machine(RuleBasedStateMachine):
    """A state machine; at each start of a broker, ``open`` enters it on ``directory`` into ``running``."""

    broker: Broker

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.running = AsyncExitStack()

    def do(self, step: Awaitable[T]) -> T:
        async def run() -> T:
            return await step

        return self.loop.run(run())

    def teardown(self) -> None:
        try:
            self.do(self.running.aclose())
            self.check_what_is_left()
        finally:
            self.loop.close()
            self.directory.cleanup()

    def check_what_is_left(self) -> None:
        """Check the directory once no broker uses it."""


def runs(examples: int) -> settings:
    """Configure this many runs of 40 steps, unless the environment sets the number."""
    return settings(
        max_examples=int(EXAMPLES or examples),
        derandomize=EXAMPLES is None,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
