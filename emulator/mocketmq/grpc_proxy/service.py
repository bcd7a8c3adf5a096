"""Serve the RPCs of ``apache.rocketmq.v2.MessagingService`` on grpclib's streams.

Refusals are answered in ``status``, with gRPC's own status OK: SDKs repeat what fails otherwise. RPCs that
5.3.3's proxy does not serve get gRPC's UNIMPLEMENTED, as there.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.errors import InjectedError, RefusedError, as_emulator_error
from mocketmq.grpc_proxy import receiving, routes, sending, settling, telemetry, transactions
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.clients import GrpcClient, GrpcClients
from mocketmq.grpc_proxy.codes import Code, GrpcError, code_of, set_status
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.faulty import faultily
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.questions import Command
from mocketmq.grpc_proxy.renewals import Renewals
from mocketmq.grpc_proxy.signature import check_access
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

MAX_POLL_BYTES: Final = 64 << 10
MAX_COMMAND_BYTES: Final = 4 << 20
"""Limits on requests that are not counted while they are in work, as that may take long."""

_Handle = Callable[[Call], Awaitable[Any]]

UNARY: Final[dict[str, _Handle]] = {
    "QueryRoute": routes.query_route,
    "QueryAssignment": routes.query_assignment,
    "Heartbeat": telemetry.heartbeat,
    "NotifyClientTermination": telemetry.terminate,
    "SendMessage": sending.send,
    "RecallMessage": sending.recall,
    "EndTransaction": transactions.end_transaction,
    "AckMessage": settling.acknowledge,
    "ChangeInvisibleDuration": settling.change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": settling.forward_to_dead_letters,
}


class Handlers(dict[str, Handler]):
    """By path. Other RPCs are refused here: grpclib's own refusal is one that some clients cannot read."""

    def get(self, path: str, default: object = None) -> Handler:  # noqa: ARG002
        """The handler of a path."""
        return super().get(path, _UNIMPLEMENTED)


class Service:
    """The handlers of all RPCs; ``answered`` counts them by RPC and code."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None, memory: Memory) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()
        self._broker = broker
        self._settings = settings
        self._access = access
        self._memory = memory
        self._clients = GrpcClients(broker.registry.clients)
        self._renewals = Renewals(broker, self._clients.is_alive)
        self._tasks: set[asyncio.Task[None]] = set()
        broker.timer.add(self._renewals)

    def mapping(self) -> dict[str, Handler]:
        """The handlers by path, for grpclib."""
        unary = {
            name: Handler(
                partial(self._unary, name, handle),
                Cardinality.UNARY_UNARY,
                message_class(f"{name}Request"),
                message_class(f"{name}Response"),
            )
            for name, handle in UNARY.items()
        }
        streams = {
            "ReceiveMessage": Handler(
                self._receive,
                Cardinality.UNARY_STREAM,
                message_class("ReceiveMessageRequest"),
                message_class("ReceiveMessageResponse"),
            ),
            "Telemetry": Handler(self._telemetry, Cardinality.STREAM_STREAM, Command, Command),
        }
        return Handlers({f"/{SERVICE}/{name}": handler for name, handler in (unary | streams).items()})

    async def _unary(self, name: str, handle: _Handle, stream: Any) -> None:
        exchange = Exchange(self._memory, stream)
        try:
            request = await exchange.read_one()
            call = self._admit(name, exchange, request)
            answer = await faultily(self._broker, name, exchange, request, partial(handle, call))
            if not answer.status.code:
                set_status(answer)
        except GRPCError:
            raise
        except Exception as error:  # noqa: BLE001 - every request is answered
            code, message = _told(error)
            stored = error.answer if isinstance(error, InjectedError) else None
            answer = set_status(stored or message_class(f"{name}Response")(), code, message)
        finally:
            exchange.end()
        self._count(name, answer.status, exchange)
        await exchange.send(answer)

    async def _receive(self, stream: Any) -> None:
        exchange = Exchange(self._memory, stream)
        try:
            request = await exchange.read_one(MAX_POLL_BYTES)
            exchange.end()
            call = self._admit("ReceiveMessage", exchange, request)
            take = partial(receiving.take, call)
            taken = await faultily(self._broker, "ReceiveMessage", exchange, request, take)
            await receiving.answer(call, taken, exchange)
            self.answered["ReceiveMessage", Code.OK if taken else Code.MESSAGE_NOT_FOUND] += 1
        except GRPCError:
            raise
        except Exception as error:
            if exchange.has_begun:  # too late for a refusal
                raise
            code, message = _told(error)
            for answer in receiving.refusal(code, message):
                await exchange.send(answer)
            self.answered["ReceiveMessage", code] += 1

    async def _telemetry(self, stream: Any) -> None:
        exchange = Exchange(self._memory, stream)
        try:
            self._admit("Telemetry", exchange, None)
        except RefusedError as error:
            await exchange.send(set_status(Command(), code_of(error), str(error)))
            return
        client = GrpcClient(
            self._broker,
            exchange.client_id,
            exchange.header("x-mq-language") or "OTHER",
            exchange.header("x-mq-client-version"),
            exchange.remote,
        )
        writing = asyncio.create_task(_write(exchange, client))
        try:
            while (command := await exchange.read(MAX_COMMAND_BYTES)) is not None:
                exchange.end()
                kind = command.WhichOneof("command")
                if kind == "settings":
                    client.commands.put_nowait(self._answer_settings(client, command.settings))
                elif kind in ("thread_stack_trace", "verify_message_result"):
                    client.questions.answered(command)
        except GrpcError as error:
            await exchange.send(set_status(Command(), error.code, str(error)))
        finally:
            writing.cancel()
            if self._clients.gone(client):
                self._begin(self._renewals.release(client.client_id))  # this task may be cancelled

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the requests."""
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the loop keeps no task alive
        task.add_done_callback(self._tasks.discard)

    def _answer_settings(self, client: GrpcClient, settings: Any) -> Any:
        if settings.WhichOneof("pub_sub") is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "the settings have neither publishing nor subscription")
        max_body = self._broker.sender.intake.max_message_bytes
        try:
            return telemetry.answer_settings(self._broker, self._clients, client, settings, max_body)
        except RefusedError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from None

    def _admit(self, name: str, exchange: Exchange, request: Any) -> Call:
        """The request as handlers get it. Raises GrpcError, AccessError."""
        client_id, remote, stream = exchange.client_id, exchange.remote, exchange.stream
        if not client_id.strip():
            raise GrpcError(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing or blank")
        if self._access is not None:
            host = remote.rpartition(":")[0].strip("[]")
            check_access(self._access, name, stream.metadata, host, request)
        remaining_s = None if stream.deadline is None else stream.deadline.time_remaining()
        return Call(
            self._broker,
            self._settings,
            self._clients,
            self._renewals,
            client_id,
            remote,
            request,
            remaining_s,
        )

    def _count(self, name: str, status: Any, exchange: Exchange) -> None:
        self.answered[name, status.code] += 1
        if status.code != Code.OK:
            log.debug(
                "%s: %s of %s: %d %s",
                exchange.remote,
                name,
                exchange.client_id,
                status.code,
                status.message,
            )


async def _refuse(stream: Any) -> None:  # noqa: ARG001 - grpclib's interface
    raise GRPCError(Status.UNIMPLEMENTED, "RocketMQ's proxy does not serve it either")


_UNIMPLEMENTED: Final = Handler(_refuse, Cardinality.UNARY_UNARY, Command, Command)


async def _write(exchange: Exchange, client: GrpcClient) -> None:
    while True:
        await exchange.send(await client.commands.get())


def _told(error: Exception) -> tuple[int, str]:
    known = as_emulator_error(error)
    return code_of(known), str(known)
