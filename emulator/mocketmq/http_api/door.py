"""Doors: protocols that share the HTTP listener, and listeners of their own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

UNMATCHED = "unmatched"
"""The path template of requests that fit no route."""


class Answer(NamedTuple):
    """A response, and the template of the path that was asked for, by which answers are counted."""

    template: str
    response: web.StreamResponse


Door = Callable[[web.BaseRequest], Awaitable[Answer]]
"""Answers a request, whatever it is. Raises nothing but cancellation."""


class Listener(NamedTuple):
    """A port and what is served there.

    ``doors`` are found by the first segment of a path; ``otherwise`` takes what none of them is for.
    """

    setting: str  # the setting that names the port
    port: int
    doors: Mapping[str, Door]
    otherwise: Door

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Let the right door answer."""
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        return await self.doors.get(segment, self.otherwise)(request)
