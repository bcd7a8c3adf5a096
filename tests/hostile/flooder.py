"""A program that floods a gRPC port: ``python -m tests.hostile.flooder FLOOD HOST:PORT``.

Each connection floods until the server closes it. The program prints the end of each connection as JSON.
It is a separate process, so that the flood does not delay the test that watches the broker.
"""

import argparse
import json
import selectors
import socket
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.grpc_proxy.frames import HEAD_BYTES, PREFACE, Frame, settings_frame
from mocketmq.hosts import split_address
from tests.hostile.floods import FLOODS

MOST_S: Final = 300.0
"""Time limit in seconds. On two idle cores, the longest flood over 20 connections takes some 12 s a round."""
_MOST_MOVES: Final = 500_000
_MOVES_AT_ONCE: Final = 64
_READ_BYTES: Final = 1 << 16


@dataclass(slots=True)
class Ended:
    """How a connection ended: whether the server closed it, and the error code of its GOAWAY, if one came."""

    moves: int = 0
    is_closed: bool = False
    goaway: int | None = None


class _Connection:
    """A socket that sends a flood, and reads what the server answers."""

    def __init__(self, moves: Iterator[bytes], address: tuple[str, int]) -> None:
        self.ended = Ended()
        self.socket = socket.create_connection(address)
        self.socket.setblocking(False)
        self._moves = islice(moves, _MOST_MOVES)
        self._out = PREFACE + settings_frame({})
        self._in = bytearray()

    @property
    def awaited(self) -> int:
        """Return the events that the selector waits for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    def write(self) -> None:
        """Send as much as the socket accepts."""
        try:
            self._out = self._out[self.socket.send(self._out) :]
        except BlockingIOError:
            return
        except OSError:
            self._out = b""  # data sent by the server before it closed can still be read
            return
        if not self._out:
            moves = list(islice(self._moves, _MOVES_AT_ONCE))
            self.ended.moves += len(moves)
            self._out = b"".join(moves)

    def read(self) -> None:
        """Look for a GOAWAY, and for the end."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except OSError:
            data = b""
        self.ended.is_closed = not data
        self._in += data
        while len(self._in) >= (end := HEAD_BYTES + int.from_bytes(self._in[:3], "big")):
            if self._in[3] == Frame.GOAWAY:
                self.ended.goaway = int.from_bytes(self._in[HEAD_BYTES + 4 : HEAD_BYTES + 8], "big")
            del self._in[:end]


def flood(name: str, address: tuple[str, int], connections: int, rounds: int) -> list[Ended]:
    """Flood over ``connections`` at a time until the server has closed ``connections * rounds``, for at most
    ``MOST_S``.
    """
    end_us = steady_us() + int(MOST_S * US_PER_S)
    flooding: deque[_Connection] = deque()
    with selectors.DefaultSelector() as selector:

        def connect() -> None:
            connection = _Connection(FLOODS[name](), address)
            flooding.append(connection)
            selector.register(connection.socket, connection.awaited, connection)

        for _ in range(connections):
            connect()
        while selector.get_map() and steady_us() < end_us:
            for key, events in selector.select(0.1):
                connection = key.data
                if events & selectors.EVENT_READ:
                    connection.read()
                if connection.ended.is_closed:
                    selector.unregister(connection.socket)
                    connection.socket.close()
                    if len(flooding) < connections * rounds:
                        connect()
                    continue
                if events & selectors.EVENT_WRITE:
                    connection.write()
                selector.modify(connection.socket, connection.awaited, connection)
    for connection in flooding:
        connection.socket.close()
    return [connection.ended for connection in flooding]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.flooder", description="Flood a gRPC port.")
    parser.add_argument("flood", choices=FLOODS)
    parser.add_argument("address", type=lambda text: split_address(text, 0), metavar="HOST:PORT")
    parser.add_argument("--connections", type=int, default=1, help="connections at a time (default 1)")
    parser.add_argument("--rounds", type=int, default=1, help="connections in a row (default 1)")
    options = parser.parse_args()
    ends = flood(options.flood, options.address, options.connections, options.rounds)
    json.dump([asdict(ended) for ended in ends], sys.stdout)


if __name__ == "__main__":
    main()
