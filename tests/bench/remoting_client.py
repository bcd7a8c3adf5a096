"""A minimal remoting client, so that the server dominates the figures."""

import asyncio
import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import cast

from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from tests.bench.load import BODY, TOPIC

_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CODE = re.compile(rb'"code":(\d+)')


def send_frame(opaque: int, *, level: int = 0, queue_id: int = 0, flag: int = 0) -> bytes:
    """A Java producer's send of one message of about 500 stored bytes."""
    properties = "KEYS\x01order-20240517\x02TAGS\x01created\x02WAIT\x01true\x02"
    properties += "UNIQ_KEY\x017F0000010A2F18B4AAC2893CB4B80000\x02"
    if level:
        properties += f"DELAY\x01{level}\x02"
    ext = {
        **{"a": "bench", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"},
        **{"g": "1715900000000", "h": str(flag), "i": properties, "j": "0", "k": "false", "m": "false"},
    }
    command = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque, ext=ext, body=BODY, language="JAVA")
    return encode(command)


def pull_frame(opaque: int, queue_id: int, offset: int, *, wait_ms: int = 0) -> bytes:
    """A consumer's pull of up to 32 messages."""
    ext = {
        **{"consumerGroup": "bench", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": str(offset)},
        **{"maxMsgNums": "32", "sysFlag": "6" if wait_ms else "4", "commitOffset": "0"},
        **{"suspendTimeoutMillis": str(wait_ms), "subscription": "*", "subVersion": "0"},
    }
    return encode(Command(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext=ext))


class Connection(asyncio.Protocol):
    """Passes each answer to ``answered(opaque, head, body)``, and sends what it returns in one write."""

    def __init__(self, answered: Callable[[int, bytes, bytes], bytes | None]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._answered = answered
        self._answers = asyncio.Event()
        self._received = bytearray()
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it

    def write(self, data: bytes) -> None:
        """Send frames."""
        assert self.transport
        self.transport.write(data)

    async def ask(self, frame: bytes) -> None:
        """Send a frame, and wait for an answer."""
        self._answers.clear()
        self.write(frame)
        await self._answers.wait()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        replies: list[bytes] = []
        start, end = 0, len(received)
        while end - start >= 8:
            stop = start + 4 + int.from_bytes(received[start : start + 4], "big")
            if stop > end:
                break
            head_end = start + 8 + (int.from_bytes(received[start + 4 : start + 8], "big") & 0xFFFFFF)
            head = bytes(received[start + 8 : head_end])
            opaque = _OPAQUE.search(head)
            assert opaque, f"an answer without opaque: {head!r}"
            more = self._answered(int(opaque[1]), head, bytes(received[head_end:stop]))
            if more:
                replies.append(more)
            start = stop
        del received[:start]
        if start:
            self._answers.set()
        if replies:
            self.write(b"".join(replies))

    def connection_lost(self, exc: Exception | None) -> None:
        self._answers.set()
        if not self._is_closed and not self.ended.done():
            self.ended.set_exception(exc or AssertionError("the server closed the connection"))

    def close(self) -> None:
        """Close the connection."""
        assert self.transport
        self._is_closed = True
        self.transport.close()

    def end(self) -> None:
        """End the wait: all answers have arrived."""
        if not self.ended.done():
            self.ended.set_result(None)


async def connect(host: str, port: int, answered: Callable[[int, bytes, bytes], bytes | None]) -> Connection:
    """Open a connection."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: Connection(answered), host, port)
    return protocol


def check(head: bytes, allowed: Sequence[int] = (0,)) -> int:
    """Return the code of an answer. Raises AssertionError for an error."""
    code = _CODE.search(head)
    assert code, f"an answer without code: {head!r}"
    assert int(code[1]) in allowed, f"not the expected answer: {head!r}"
    return int(code[1])


def number_in(head: bytes, name: bytes) -> int:
    """Return the number in a field of an answer."""
    _, _, text = head.partition(b'"' + name + b'":"')
    return int(text.partition(b'"')[0])


def acknowledged(_opaque: int, head: bytes, _body: bytes) -> None:
    """Check an answer without using it."""
    check(head)


async def sends_per_second(host: str, port: int, connections: int, in_flight: int, seconds: float) -> float:
    """Acknowledged sends a second, with this many in flight over this many connections."""
    opened: list[Connection] = []
    done = 0
    until = perf_counter() + seconds

    async def load(share: int) -> None:
        frames = [send_frame(opaque, queue_id=opaque % 4) for opaque in range(share)]
        left = share

        def answered(opaque: int, head: bytes, _body: bytes) -> bytes | None:
            nonlocal done, left
            check(head)
            done += 1
            if perf_counter() < until:
                return frames[opaque]
            left -= 1
            if not left:
                connection.end()
            return None

        connection = await connect(host, port, answered)
        opened.append(connection)
        connection.write(b"".join(frames))
        await connection.ended

    started = perf_counter()
    shares = [in_flight // connections + (n < in_flight % connections) for n in range(connections)]
    await asyncio.gather(*(load(share) for share in shares if share))
    took_s = perf_counter() - started
    for connection in opened:
        connection.close()
    return done / took_s
