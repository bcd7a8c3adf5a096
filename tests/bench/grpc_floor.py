"""The floor for gRPC: grpclib with a handler that reads a SendMessage and answers at once."""

import asyncio
import socket
from typing import Any

import uvloop
from grpclib.const import Cardinality, Handler
from grpclib.server import Server

from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import Codec, message_class

_Request, _Answer = message_class("SendMessageRequest"), message_class("SendMessageResponse")


async def _send(stream: Any) -> None:
    request = await stream.recv_message()
    answer = _Answer(status={"code": 20_000, "message": "OK"})
    for one in request.messages:
        entry = answer.entries.add(message_id=one.system_properties.message_id, offset=100_000)
        entry.status.code, entry.status.message = 20_000, "OK"
    await stream.send_message(answer)


class _Floor:
    def __mapping__(self) -> dict[str, Handler]:
        return {f"/{SERVICE}/SendMessage": Handler(_send, Cardinality.UNARY_UNARY, _Request, _Answer)}


async def _serve() -> None:
    codec: Any = Codec()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await Server([_Floor()], codec=codec).start(sock=listening)
        print(listening.getsockname()[1], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as main:
        main.run(_serve())
