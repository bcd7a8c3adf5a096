"""Orders the requests of one connection that read or change a group's offsets."""

import asyncio
from collections import deque
from enum import Enum, auto


class Effect(Enum):
    """When a request's change of offsets becomes visible to later requests on the connection."""

    AT_ONCE = auto()
    """Before the handler waits for the first time. Requests that change no offset use this, too."""
    BY_WRITER = auto()
    """When the writer commits the change. The writer processes such requests in order."""
    AT_END = auto()
    """When the request is answered."""


class Lane:
    """A queue in which a request begins once all earlier requests have taken effect.

    Requests with :data:`Effect.BY_WRITER` do not wait for each other, because the writer keeps their order.
    """

    def __init__(self) -> None:
        self._begun = 0  # requests that have begun, but have not taken effect yet
        self._is_alone = False  # a request that excludes all others has begun
        self._queue: deque[tuple[Effect, asyncio.Future[None]]] = deque()

    def try_begin(self, effect: Effect) -> bool:
        """Begin a request if its turn has come; the turn lasts until ``end``."""
        if self._queue or not self._may_begin(effect):
            return False
        self._begin(effect)
        return True

    async def turn(self, effect: Effect) -> None:
        """Wait for the turn of a request that ``try_begin`` refused. The request has begun on return."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((effect, turn))
        await turn

    def end(self, effect: Effect) -> None:
        """End the turn of an answered request."""
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
            if not turn.done():  # otherwise its connection has ended
                self._begin(effect)
                turn.set_result(None)
