"""Orders the requests of one connection that read or change a group's offsets."""

import asyncio
from collections import deque
from enum import Enum, auto


class Effect(Enum):
    """When a request's change of offsets becomes visible to later requests on the connection."""

    AT_ONCE = auto()
    """As soon as its handler first waits: requests that only read."""
    BY_WRITER = auto()
    """When the writer has stored it; the writer keeps the order among these."""
    AT_END = auto()
    """When it is answered."""


class Lane:
    """First come, first served: a request begins once all earlier ones have taken effect.

    Requests that the writer keeps in order do not wait for each other.
    """

    def __init__(self) -> None:
        self._begun = 0  # requests whose effect is still to come
        self._is_alone = False  # that is one, and no other may begin
        self._queue: deque[tuple[Effect, asyncio.Future[None]]] = deque()

    def begin(self, effect: Effect) -> bool:
        """Begin a request if it is its turn, which lasts until ``end``."""
        if self._queue or not self._may_begin(effect):
            return False
        self._begin(effect)
        return True

    async def turn(self, effect: Effect) -> None:
        """Wait for the turn of a request that could not begin; then it has begun."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((effect, turn))
        await turn

    def end(self, effect: Effect) -> None:
        """Note that a request that has begun is answered."""
        if effect is not Effect.AT_ONCE:
            self._begun -= 1
            self._is_alone = False
            self._call_next()

    def _may_begin(self, effect: Effect) -> bool:
        return not self._begun or (effect is Effect.BY_WRITER and not self._is_alone)

    def _begin(self, effect: Effect) -> None:
        if effect is not Effect.AT_ONCE:
            self._begun += 1
            self._is_alone = effect is Effect.AT_END

    def _call_next(self) -> None:
        while self._queue and self._may_begin(self._queue[0][0]):
            effect, turn = self._queue.popleft()
            if not turn.done():  # else its connection has ended
                self._begin(effect)
                turn.set_result(None)
