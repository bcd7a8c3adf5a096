"""The pace of a replay: moves the broker's clock to each recorded time, or waits for the clock."""

import asyncio
from http import HTTPStatus
from typing import Final

from mocketmq.client.answer import BrokerError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.errors import InvalidArgumentError

_RESET_MS: Final = 60_000
"""A larger step back of recorded times is a reset or a new run; a smaller one, lines out of order."""


class Pace:
    """Maps recorded times to targets on the broker's clock, with the recorded distance from the first line.

    ``began_ms`` and ``now_ms`` are times of the broker's clock in milliseconds. ``moves`` says whether the
    replay moves the clock, and ``steps`` whether only the replay moves it, without waiting for real time.
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
        """Choose the speed in recorded seconds per real second; the default is the rate of the clock.

        A replay does not wait if it ``hurries``, or if the clock is manual and no speed is given. Raises
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
        """Return the target of a line with this recorded time. Targets keep the spacing and never decrease.

        After a reset of the recorded clock, or a new run, the spacing continues from the last target.
        """
        if self._recorded_ms is None:
            self._recorded_ms = recorded_ms
        passed_ms = recorded_ms - self._recorded_ms
        if passed_ms > 0 or passed_ms < -_RESET_MS:
            self._target_ms += max(passed_ms, 0)
            self._recorded_ms = recorded_ms
        return self._target_ms

    async def reach(self, target_ms: int) -> None:
        """Wait for the real time of a target, and move the clock there if the replay moves it.

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
