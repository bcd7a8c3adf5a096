"""Listens on a port that an outage can close for a while. The port stays reserved during the outage."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from mocketmq.errors import ListenError
from mocketmq.hosts import with_port

BACKLOG: Final = 2_048
"""Accept backlog, that is, the maximum number of connections that wait to be accepted."""
_REUSES: Final = os.name == "posix" and sys.platform != "cygwin"
_TURNS: Final = 5
"""Number of turns of the event loop until a connection that is being accepted has its protocol."""


class PortListener:
    """Listens at addresses. ``make`` creates a connection's protocol, ``cut`` aborts all connections."""

    def __init__(self, make: Callable[[], Any], cut: Callable[[], None]) -> None:
        self._make = make
        self._cut = cut
        self._servers: list[asyncio.Server] = []
        self._reserved: list[socket.socket] = []

    @property
    def is_suspended(self) -> bool:
        """Whether the port is reserved, but not open."""
        return bool(self._reserved)

    async def listen_at(self, host: str, port: int) -> int:
        """Listen at each address of the host. Returns the port; for 0, a free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make, host, port, backlog=BACKLOG)
        self._servers.append(server)
        opened: int = server.sockets[0].getsockname()[1]
        return opened

    async def listen(self, sock: socket.socket) -> None:
        """Listen on a bound socket. Raises OSError."""
        _reuse(sock, True)  # so that the port can be bound again while a client is connected
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._make, sock=sock, backlog=BACKLOG))

    async def suspend(self) -> None:
        """Stop listening, and abort all connections. Raises OSError if the port cannot be reserved."""
        addresses = [(one.family, one.getsockname()) for server in self._servers for one in server.sockets]
        self._stop()
        for family, address in addresses:
            self._reserved.append(_bound(family, address))
        for _ in range(_TURNS):
            self._cut()
            await asyncio.sleep(0)

    async def resume(self) -> None:
        """Listen again. Raises ListenError; the caller may then try again."""
        while self._reserved:
            try:
                await self.listen(self._reserved[-1])
            except OSError as error:
                address = with_port(*self._reserved[-1].getsockname()[:2])
                raise ListenError(f"cannot listen on {address} again: {error.strerror or error}") from error
            self._reserved.pop()

    def close(self) -> None:
        """Stop listening, and release the port. May be called twice."""
        self._stop()
        while self._reserved:
            self._reserved.pop().close()

    def _stop(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()


def _bound(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _reuse(sock, True)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        _reuse(sock, False)  # so that no other process can bind the port
    except BaseException:
        sock.close()
        raise
    return sock


def _reuse(sock: socket.socket, reuses: bool) -> None:
    if _REUSES:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuses))
