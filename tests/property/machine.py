"""What every state machine has that drives a real broker: its directory, its event loop, its runs."""

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
"""So many random runs; without it there are few, and always the same ones."""

T = TypeVar("T")


class Machine(RuleBasedStateMachine):
    """``open`` enters a broker on ``directory`` into ``running``, whenever one starts."""

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
        """Look at the directory once no broker has it any more."""


def runs(examples: int) -> settings:
    """So many runs of 40 steps, unless the environment says how many."""
    return settings(
        max_examples=int(EXAMPLES or examples),
        derandomize=EXAMPLES is None,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
