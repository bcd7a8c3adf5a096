"""The floor for remoting: parses the same frames, appends them to a file with one fdatasync per batch.

A pull is answered with 32 records that never change.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from mocketmq.message.message import StoredMessage
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from mocketmq.remoting.wire.record import encode_record
from tests.bench.floors import FileLog
from tests.bench.load import BODY, TOPIC

_decode = msgspec.json.Decoder().decode
_SENT = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "100000", "MSG_REGION": "DefaultRegion"}
_PULLED = {"suggestWhichBrokerId": "0", "nextBeginOffset": "32", "minOffset": "0", "maxOffset": "100000"}
_MESSAGE = StoredMessage(
    *(1, 1, 1, 1_715_900_000_000_000, 1_715_900_000_000_000, "127.0.0.1:4000", "127.0.0.1:10911", 0, 0),
    *(BODY, "KEYS\x01order-20240517\x02TAGS\x01created\x02", 0, 0, "0" * 32, None, None, None),
)
_RECORDS = encode_record(_MESSAGE, TOPIC, 0, "127.0.0.1:10911") * 32


class _Floor(asyncio.Protocol):
    def __init__(self, log: FileLog) -> None:
        self._log = log
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start, end = 0, len(received)
        while end - start >= 8:
            stop = start + 4 + int.from_bytes(received[start : start + 4], "big")
            if stop > end:
                break
            head_end = start + 8 + (int.from_bytes(received[start + 4 : start + 8], "big") & 0xFFFFFF)
            header = _decode(received[start + 8 : head_end])
            if header["code"] == RequestCode.PULL_MESSAGE:
                self._answer(header, _PULLED, _RECORDS)
            else:
                self._log.append_then(bytes(received[start:stop]), partial(self._answer, header, _SENT))
            start = stop
        del received[:start]

    def _answer(self, header: dict[str, Any], ext: dict[str, str], body: bytes = b"") -> None:
        self._answers.append(encode(Command(code=0, opaque=header["opaque"], flag=1, ext=ext, body=body)))
        if len(self._answers) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        assert self._transport
        self._transport.write(b"".join(answers))


async def _serve(path: Path) -> None:
    log = FileLog(path)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Floor(log), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as main:
        main.run(_serve(Path(sys.argv[1])))
