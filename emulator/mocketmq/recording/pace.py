"""The pace of a replay: moves the broker's clock to each recorded time, or waits until it is there."""

import asyncio
from http import HTTPStatus
from typing import Final

from mocketmq.client.answer import BrokerError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.errors import InvalidArgumentError

_RESET_MS: Final = 60_000
"""A recorded clock that goes back by more was reset, or is another run's. By less, lines are out of order."""


class Pace:
    """Targets on the broker's clock, each as far after the begin as the line was recorded after the first.

    ``began_ms`` and ``now_ms`` are times of the broker's clock in milliseconds. ``moves`` says whether the
    replay moves that clock, ``steps`` whether only the replay does, without waiting.
    """

    def __init__(self, broker: Client) -> None:
        self.began_ms = self.now_ms = 0
        self.moves = self.steps = False
        self._broker = broker
        self._speed: float | None = None
        self._steady_us = 0
        self._target_ms = 0
        self._recorded_ms: int | None = None

    async def plan(self, speed: float | None, *, hurries: bool) -> None:
        """Choose the speed: recorded seconds a real second, by default the rate of the clock.

        A replay that ``hurries`` does not wait, nor one on a manual clock without a speed. Raises
        InvalidArgumentError, BrokerError, UnreachableError.
        """
        rate: float = (await self._broker.clock())["rate"]
        if speed is None and not hurries:
            speed = rate or None
        if speed is not None and speed < rate:
            raise InvalidArgumentError("speed", speed, f"at least {rate:g}, at which the broker's clock runs")
        self._speed, self.moves = speed, speed != rate
        self.steps = speed is None and not rate

    async def begin(self) -> None:
        """Begin at the broker's current time. Raises BrokerError, UnreachableError."""
        self.began_ms = self.now_ms = self._target_ms = (await self._broker.clock())["now_ms"]
        self._steady_us = steady_us()

    def target_ms(self, recorded_ms: int) -> int:
        """The target of a line with this recorded time. Targets never go back, and keep the spacing.

        After a reset of the recorded clock, or from one run to the next, the spacing continues at the last
        target.
        """
        if self._recorded_ms is None:
            self._recorded_ms = recorded_ms
        passed_ms = recorded_ms - self._recorded_ms
        if passed_ms > 0 or passed_ms < -_RESET_MS:
            self._target_ms += max(passed_ms, 0)
            self._recorded_ms = recorded_ms
        return self._target_ms

    async def reach(self, target_ms: int) -> None:
        """Wait for the real time of a target, then move the clock there, or wait until it is there.

        Raises BrokerError, UnreachableError.
        """
        if self._speed is not None:
            at_us = self._steady_us + (target_ms - self.began_ms) * US_PER_MS / self._speed
            await asyncio.sleep(max(at_us - steady_us(), 0) / US_PER_S)
        if not self.moves or target_ms <= self.now_ms:
            return
        try:
            self.now_ms = (await self._broker.move_to(target_ms))["now_ms"]
        except BrokerError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            self.now_ms = (await self._broker.clock())["now_ms"]
            if self.now_ms < target_ms:
                raise
