"""Serve a request over HTTP with the fault on purpose that strikes it, if any."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from mocketmq.doors import peer_host
from mocketmq.faults.carrying_out import carry_out
from mocketmq.faults.fault import FaultyRequest, Unanswered
from mocketmq.faults.faults import Faults
from mocketmq.http_api.request import client_of

T = TypeVar("T")


def clients_of(request: web.BaseRequest) -> tuple[str, ...]:
    """The client's names in rules: its address, with and without the port."""
    client = client_of(request)
    return client, peer_host(client)


async def serve_with_faults(
    faults: Faults,
    faulty: FaultyRequest,
    request: web.BaseRequest,
    serve: Callable[[], Awaitable[T]],
    key_of: Callable[[T], str | None],
) -> T:
    """The answer of ``serve``. Raises its errors, and those of the rule."""
    hit = faults.hit(faulty)
    if hit is None:
        return await serve()
    try:
        return await carry_out(faults, hit, faulty, serve, key_of)
    except Unanswered as end:
        if not end.closes:
            await hit.fault.gone.wait()
        if request.transport is not None:
            request.transport.close()
        # The server cancels the handlers of a connection that is closed.
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
