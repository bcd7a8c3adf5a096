"""An HTTP/2 client that sends arbitrary frames."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events

from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.frames import Frame
from mocketmq.hosts import split_address
from tests.support.patience import PATIENCE_S

ANNOUNCED_BYTES = 2_000_000


def headers_of(rpc: str) -> dict[str, str]:
    """Return the headers of a request."""
    return {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{rpc}",
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "x-mq-client-id": "hostile@1@0@x",
    }


class RawHttp2:
    """One connection, opened by :func:`raw_http2`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True,
                header_encoding="ascii",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.events: list[Any] = []
        self.goaway: int | None = None  # the server's error code; h2 accepts nothing after a GOAWAY
        self._incoming = bytearray()

    async def begin(self) -> None:
        """Send the preface."""
        self.h2.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        """Send the connection's pending bytes."""
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    def open(self, rpc: str, *, end: bool = False, headers: dict[str, str] | None = None) -> int:
        """Begin an RPC, and return its stream number. :meth:`flush` sends it."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, list((headers_of(rpc) | (headers or {})).items()), end_stream=end)
        return stream

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send data as fast as the windows allow."""
        rest = memoryview(data)
        while True:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if rest and not room:
                await self.read()
                continue
            piece, rest = bytes(rest[:room]), rest[room:]
            self.h2.send_data(stream, piece, end_stream=end and not rest)
            await self.flush()
            if not rest:
                return

    async def read(self) -> bool:
        """Read arrived data into ``events``. Returns False at the end of the connection."""
        async with asyncio.timeout(PATIENCE_S):
            data = await self.reader.read(1 << 16)
        for event in self.h2.receive_data(self._without_goaway(data)) if data else ():
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.events.append(event)
        if data:
            await self.flush()
        return bool(data)

    def _without_goaway(self, data: bytes) -> bytes:
        """Return the complete frames that have arrived, without GOAWAY."""
        self._incoming += data
        frames = bytearray()
        while len(self._incoming) >= max(9, end := 9 + int.from_bytes(self._incoming[:3], "big")):
            one = bytes(self._incoming[:end])
            del self._incoming[:end]
            if one[3] == Frame.GOAWAY:
                self.goaway = int.from_bytes(one[13:17], "big")
            else:
                frames += one
        return bytes(frames)

    def data(self, stream: int) -> bytes:
        """Return all data that has arrived on a stream."""
        return b"".join(
            bytes(event.data)
            for event in self.events
            if isinstance(event, h2.events.DataReceived) and event.stream_id == stream
        )

    def message(self, stream: int) -> bytes:
        """Return the first message on a stream."""
        data = self.data(stream)
        return data[5 : 5 + int.from_bytes(data[1:5], "big")]

    async def trailers(self, stream: int) -> dict[str, str]:
        """Return the headers that end a stream, or ``reset`` if the stream is reset."""
        while True:
            for event in self.events:
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, h2.events.StreamReset):
                    return {"reset": str(int(event.error_code))}
                is_last = isinstance(event, h2.events.ResponseReceived) and event.stream_ended
                if is_last or isinstance(event, h2.events.TrailersReceived):
                    return {str(name): str(value) for name, value in event.headers}
            assert await self.read(), "the connection has ended"


@asynccontextmanager
async def raw_http2(address: str) -> AsyncIterator[RawHttp2]:
    """Open a connection to ``host:port``, and close it on exit."""
    host, port = split_address(address, 0)
    reader, writer = await asyncio.open_connection(host, port)
    client = RawHttp2(reader, writer)
    try:
        await client.begin()
        yield client
    finally:
        writer.close()


def announced(sent: int) -> bytes:
    """Return the first ``sent`` bytes of a message with a larger announced length."""
    return (b"\0" + ANNOUNCED_BYTES.to_bytes(4, "big") + bytes(sent))[:sent]


def framed(message: Any) -> bytes:
    """Return a protobuf message as framed on a stream."""
    data = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + bytes(data)
