"""A port that can be closed for a time while it stays reserved for this process."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from mocketmq.doors import with_port
from mocketmq.errors import ListenError

BACKLOG: Final = 2_048
"""Connections that may wait to be accepted."""
_REUSES: Final = os.name == "posix" and sys.platform != "cygwin"
_TURNS: Final = 5
"""Turns of the event loop after which a connection that is being accepted is known."""


class Gate:
    """Listens at one or more addresses. ``make`` gives a connection its protocol, ``cut`` ends them all."""

    def __init__(self, make: Callable[[], Any], cut: Callable[[], None]) -> None:
        self._make = make
        self._cut = cut
        self._servers: list[asyncio.Server] = []
        self._kept: list[socket.socket] = []

    @property
    def is_shut(self) -> bool:
        """Whether the port is kept, but not listened on."""
        return bool(self._kept)

    async def listen_at(self, host: str, port: int) -> int:
        """Listen at each address of the host; the port, which may be picked by 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make, host, port, backlog=BACKLOG)
        self._servers.append(server)
        opened: int = server.sockets[0].getsockname()[1]
        return opened

    async def listen(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound. Raises OSError."""
        _reuse(sock, True)  # or the port could not be bound again while a client is connected
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._make, sock=sock, backlog=BACKLOG))

    async def shut(self) -> None:
        """Stop listening, and cut all connections. Raises OSError if the port cannot be kept."""
        addresses = [(one.family, one.getsockname()) for server in self._servers for one in server.sockets]
        self._stop()
        for family, address in addresses:
            self._kept.append(_bound(family, address))
        for _ in range(_TURNS):
            self._cut()
            await asyncio.sleep(0)

    async def reopen(self) -> None:
        """Listen again. Raises ListenError; then it may be tried again."""
        while self._kept:
            try:
                await self.listen(self._kept[-1])
            except OSError as error:
                address = with_port(*self._kept[-1].getsockname()[:2])
                raise ListenError(f"cannot listen on {address} again: {error.strerror or error}") from error
            self._kept.pop()

    def close(self) -> None:
        """Stop listening, and give the port back. May be called twice."""
        self._stop()
        while self._kept:
            self._kept.pop().close()

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
        _reuse(sock, False)  # nobody else may bind it
    except BaseException:
        sock.close()
        raise
    return sock


def _reuse(sock: socket.socket, reuses: bool) -> None:
    if _REUSES:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuses))
