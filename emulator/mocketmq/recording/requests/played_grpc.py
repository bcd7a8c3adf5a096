"""A gRPC client that sends the requests of a recorded client to a broker."""

import asyncio
from typing import Any

from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.calling.call import NoAnswerError, reason_of
from mocketmq.calling.grpc_streams import begin
from mocketmq.door_tap import GrpcAnswerMade
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import Codec
from mocketmq.recording.requests import grpc_form, http_form
from mocketmq.recording.requests.players import NO_MASKS, Change, Form, PlayedConnection, retrieve


class PlayedGrpc(PlayedConnection):
    """A gRPC connection. Its Telemetry streams stay open until it closes."""

    def __init__(self, host: str, port: int) -> None:
        codec: Any = Codec()
        self._channel = Channel(host, port, codec=codec)
        self._streams: dict[int, Any] = {}
        self._asking: set[asyncio.Task[Form]] = set()

    async def begin(self, form: Form, change: Change) -> "asyncio.Future[Form]":
        document = http_form.changed(form["message"], change, grpc_form.KEPT)
        ask = self._command if form["rpc"] == "Telemetry" else self._call
        task = asyncio.create_task(ask(form, grpc_form.message_of(form, document)))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        task.add_done_callback(retrieve)
        return task

    async def _call(self, form: Form, message: Any) -> Form:
        rpc = form["rpc"]
        kind = Cardinality.UNARY_STREAM if rpc == "ReceiveMessage" else Cardinality.UNARY_UNARY
        try:
            async with self._channel.request(
                *(f"/{SERVICE}/{rpc}", kind, type(message), grpc_form.reply_class(rpc)),
                metadata=form["headers"],
            ) as stream:
                await begin(stream)
                await stream.send_message(message, end=True)
                replies = [reply async for reply in stream]
        except (GRPCError, StreamTerminatedError, OSError) as error:
            raise _failed(error) from None
        return self._answer(rpc, replies)

    async def _command(self, form: Form, message: Any) -> Form:
        stream = self._streams.get(form["stream"])
        try:
            if stream is None:
                kind = type(message)
                stream = self._channel.request(
                    *(f"/{SERVICE}/Telemetry", Cardinality.STREAM_STREAM, kind, kind),
                    metadata=form["headers"],
                )
                self._streams[form["stream"]] = stream
                await stream.__aenter__()
                try:
                    await begin(stream)
                except OSError:
                    del self._streams[form["stream"]]
                    raise
            await stream.send_message(message)
            reply = await stream.recv_message()
        except (GRPCError, StreamTerminatedError, OSError) as error:
            raise _failed(error) from None
        return self._answer("Telemetry", [] if reply is None else [reply])

    def _answer(self, rpc: str, replies: list[Any]) -> Form:
        made = GrpcAnswerMade([reply.SerializeToString() for reply in replies])
        return grpc_form.answer_form(rpc, made, NO_MASKS)

    async def close(self) -> None:
        """Close the socket and its streams."""
        self._channel.close()
        if asking := list(self._asking):
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)


def _failed(error: Exception) -> NoAnswerError:
    if isinstance(error, GRPCError):
        return NoAnswerError(f"the broker answered with the status {error.status.name}: {error.message}")
    text = reason_of(error) if isinstance(error, OSError) else str(error)
    return NoAnswerError(f"the broker did not answer: {text}")
