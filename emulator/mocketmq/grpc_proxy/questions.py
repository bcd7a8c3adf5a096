"""The broker's requests to a client on its Telemetry stream (ClientActivity.java, 5.3.3).

Each request has a nonce, which the client repeats in its response. RocketMQ's own proxy never sends
ReconnectEndpointsCommand (5.5.0).
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mocketmq.broker.registry.clients import ClientAnswer, ConsumerData
from mocketmq.errors import ClientFailedError, ClientTimeoutError
from mocketmq.grpc_proxy.codes import Code
from mocketmq.grpc_proxy.messages import message_class

ANSWER_S: Final = 5.0
"""Time limit for a client's response in real seconds (grpcProxyRelayRequestTimeoutInSeconds, 5.3.3)."""
_RESULTS: Final = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}

Command: Any = message_class("TelemetryCommand")


class Questions:
    """The requests to one client; ``send`` writes a command to its stream, or returns False."""

    def __init__(self, name: str, send: Callable[[Any], bool]) -> None:
        self._name = name
        self._send = send
        self._nonces = itertools.count()
        self._open: dict[str, asyncio.Future[Any]] = {}

    async def verify(self, message: Any) -> ClientAnswer:
        """Make a push consumer consume the message now; return the result in the form that remoting uses.

        Raises ClientFailedError, ClientTimeoutError.
        """
        command = Command()
        command.verify_message_command.message.CopyFrom(message)
        answer = await self._ask(command, command.verify_message_command)
        result = _RESULTS.get(answer.status.code)
        if result is None:
            raise self._refused(answer.status)
        return client_answer(
            {
                "autoCommit": True,
                "consumeResult": result,
                "order": False,
                "remark": answer.status.message or "from gRPC client",
                "spentTimeMills": 0,
            }
        )

    async def stacks(self) -> str:
        """Request the stacks of the client's threads. Raises ClientFailedError, ClientTimeoutError."""
        command = Command()
        answer = await self._ask(command, command.print_thread_stack_trace_command)
        if answer.status.code != Code.OK:
            raise self._refused(answer.status)
        return str(answer.thread_stack_trace.thread_stack_trace)

    def reconnect(self) -> None:
        """Tell the client to reconnect. Clients do not respond to this command."""
        command = Command()
        command.reconnect_endpoints_command.nonce = str(next(self._nonces))
        self._send(command)

    async def _ask(self, command: Any, question: Any) -> Any:
        nonce = question.nonce = str(next(self._nonces))
        answer = self._open[nonce] = asyncio.get_running_loop().create_future()
        try:
            if not self._send(command):
                raise ClientFailedError(
                    f"{self._name} cannot be asked: unread messages use too much memory; retry later"
                )
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise ClientTimeoutError(f"{self._name} did not answer within {ANSWER_S:g} s") from None
        finally:
            del self._open[nonce]

    def answered(self, command: Any) -> None:
        """Pass a response to the request that waits for it, if any."""
        question = self._open.get(getattr(command, command.WhichOneof("command")).nonce)
        if question is not None and not question.done():
            question.set_result(command)

    def end(self) -> None:
        """Fail the waiting requests, because no more responses will be read."""
        for question in self._open.values():
            if not question.done():
                question.set_exception(ClientFailedError(f"the Telemetry stream of {self._name} ended"))

    def _refused(self, status: Any) -> ClientFailedError:
        return ClientFailedError(f"{self._name} answered with code {status.code}: {status.message}")


def running_info(consuming: ConsumerData, version: str, began_ms: int, stacks: str | None) -> ClientAnswer:
    """Make a consumer's info in the form of ConsumerRunningInfo.java, without remoting's queues and rates."""
    content: dict[str, Any] = {
        "mqTable": {},
        "properties": {
            "PROP_CLIENT_VERSION": version,
            "PROP_CONSUMER_START_TIMESTAMP": str(began_ms),
            "PROP_CONSUME_TYPE": consuming.kind,
        },
        "statusTable": {},
        "subscriptionSet": [
            {"expressionType": each.kind, "subString": each.expression, "topic": each.topic}
            for each in consuming.subscriptions
        ],
    }
    if stacks is not None:
        content["jstack"] = stacks
    return client_answer(content)


def client_answer(content: dict[str, Any]) -> ClientAnswer:
    """Make an answer with this content, also as JSON text."""
    return ClientAnswer(msgspec.json.encode(content), content)
