"""Serves an HTTP request, and injects the fault of a rule that matches it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mocketmq.faults.injector import RequestAttributes, Unanswered
from mocketmq.faults.rule_set import FaultRules
from mocketmq.hosts import peer_host
from mocketmq.http_api import web
from mocketmq.http_api.request import client_of

T = TypeVar("T")


def clients_of(request: web.BaseRequest) -> tuple[str, ...]:
    """The names of a client that fault rules can match: its address with and without the port."""
    client = client_of(request)
    return client, peer_host(client)


async def serve_with_faults(
    faults: FaultRules,
    attributes: RequestAttributes,
    request: web.BaseRequest,
    serve: Callable[[], Awaitable[T]],
    key_of: Callable[[T], str | None],
) -> T:
    """Run ``serve`` with any injected fault applied. Raises the errors of ``serve`` and of the fault."""
    injection = faults.injection_for(attributes)
    if injection is None:
        return await serve()
    try:
        return await faults.carry_out(injection, attributes, serve, key_of)
    except Unanswered as end:
        if not end.closes:
            await injection.fault.gone.wait()
        if request.transport is not None:
            request.transport.close()
        # Wait forever: the server cancels this handler when the connection is closed.
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
