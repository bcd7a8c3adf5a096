"""Serves the RPCs of ``apache.rocketmq.v2.MessagingService``.

A refused request gets the gRPC status OK and the error in the response's ``status``, because SDKs retry
requests with other gRPC statuses. RPCs that the 5.3.3 proxy does not serve get UNIMPLEMENTED, as in RocketMQ.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.broker.broker import Broker
from mocketmq.door_tap import DoorTap
from mocketmq.errors import AccessError, InjectedError, RefusedError, as_emulator_error
from mocketmq.grpc_proxy import acknowledging, lite, receiving, routes, sending, telemetry
from mocketmq.grpc_proxy.access import needs, settings_needs, signer_of
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.client_limits import MAX_COMMAND_BYTES, MAX_POLL_BYTES, MAX_REQUEST_BYTES
from mocketmq.grpc_proxy.clients import GrpcClient, GrpcClients
from mocketmq.grpc_proxy.codes import Code, GrpcError, Status, StatusError, code_of, set_status
from mocketmq.grpc_proxy.command_queue import CommandQueue
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.exchange import Exchange, TappedExchange
from mocketmq.grpc_proxy.fault_injection import serve_with_faults
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.questions import Command
from mocketmq.grpc_proxy.stream import Rpc, Stream
from mocketmq.hosts import peer_host
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

_Handle = Callable[[Call], Awaitable[Any]]

UNARY: Final[dict[str, _Handle]] = {
    "QueryRoute": routes.query_route,
    "QueryAssignment": routes.query_assignment,
    "Heartbeat": telemetry.heartbeat,
    "NotifyClientTermination": telemetry.terminate,
    "SendMessage": sending.send,
    "RecallMessage": sending.recall,
    "EndTransaction": sending.end_transaction,
    "AckMessage": acknowledging.acknowledge,
    "ChangeInvisibleDuration": acknowledging.change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": acknowledging.forward_to_dead_letters,
    "SyncLiteSubscription": lite.sync_lite_subscription,
}


@dataclass(eq=False, repr=False)
class Service:
    """The handlers of all RPCs; ``answered`` counts them by RPC and code."""

    _broker: Broker
    _settings: Settings
    _access: Access | None
    _memory: Memory
    _tap: DoorTap | None = None

    def __post_init__(self) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()
        self._converter = receiving.Converter()
        self._clients = GrpcClients(self._broker.registry.clients)
        self._tasks: set[asyncio.Task[None]] = set()

    def rpcs(self) -> dict[str, Rpc]:
        """Return the handler and limits of each RPC, by its path."""
        unary = {
            name: Rpc(partial(self._unary, name, handle), message_class(f"{name}Request"), MAX_REQUEST_BYTES)
            for name, handle in UNARY.items()
        }
        others = {
            "ReceiveMessage": Rpc(
                self._receive, message_class("ReceiveMessageRequest"), MAX_POLL_BYTES, is_poll=True
            ),
            "Telemetry": Rpc(self._telemetry, Command, MAX_COMMAND_BYTES, is_streaming=True),
        }
        return {f"/{SERVICE}/{name}": rpc for name, rpc in (unary | others).items()}

    def _exchange(self, name: str, stream: Stream, kind: Any) -> Exchange:
        if self._tap is None:
            return Exchange(self._memory, stream, kind)
        return TappedExchange(self._memory, stream, kind, self._tap, name)

    async def _unary(self, name: str, handle: _Handle, stream: Stream, kind: Any) -> None:
        exchange = self._exchange(name, stream, kind)
        try:
            request = await exchange.read_one()
            call = self._admit(name, exchange, request)
            answer = await serve_with_faults(self._broker, name, exchange, request, partial(handle, call))
            if not answer.status.code:
                set_status(answer)
        except StatusError:
            raise
        except Exception as error:  # noqa: BLE001 - every request needs a response
            code, message = _told(error)
            stored = error.answer if isinstance(error, InjectedError) else None
            answer = set_status(stored or message_class(f"{name}Response")(), code, message)
        finally:
            exchange.end()
        self._count(name, answer.status, exchange)
        await exchange.send(answer)
        exchange.finished()

    async def _receive(self, stream: Stream, kind: Any) -> None:
        exchange = self._exchange("ReceiveMessage", stream, kind)
        try:
            request = await exchange.read_one()
            exchange.end()
            call = self._admit("ReceiveMessage", exchange, request)
            take = partial(receiving.take, call, exchange)
            try:
                taken = await serve_with_faults(self._broker, "ReceiveMessage", exchange, request, take)
            except asyncio.CancelledError:
                if not stream.is_hurried or stream.task is None or stream.task.uncancel():
                    raise
                taken = ()
            await receiving.answer(call, taken, exchange, self._converter)
            self.answered["ReceiveMessage", Code.OK if taken else Code.MESSAGE_NOT_FOUND] += 1
        except StatusError:
            raise
        except Exception as error:
            if exchange.has_begun:  # a refusal cannot be sent any more
                raise
            code, message = _told(error)
            for answer in receiving.refusal(code, message):
                await exchange.send(answer)
            self.answered["ReceiveMessage", code] += 1
        finally:
            exchange.settle(0)
            exchange.finished()

    async def _telemetry(self, stream: Stream, kind: Any) -> None:
        exchange = self._exchange("Telemetry", stream, kind)
        try:
            self._admit("Telemetry", exchange, None)
        except RefusedError as error:
            exchange.read_no_more()
            await exchange.send(set_status(Command(), code_of(error), str(error)))
            return
        commands = CommandQueue(exchange, self._memory)
        client = GrpcClient(
            self._broker,
            exchange.client_id,
            exchange.header("x-mq-language") or "OTHER",
            exchange.header("x-mq-client-version"),
            exchange.remote,
            commands,
            exchange.local,
        )
        writing = asyncio.create_task(commands.write())
        try:
            await self._serve_commands(exchange, client)
            await commands.sent()  # one of the last commands may tell the client to reconnect
        finally:
            writing.cancel()
            commands.drop()
            if self._clients.gone(client):
                self._broker.lite_subscriptions.leave(client.client_id)
                # In a separate task, because this one may be cancelled.
                self._begin(self._broker.renewals.release(client.client_id))

    async def _serve_commands(self, exchange: Exchange, client: GrpcClient) -> None:
        """Serve the client's commands until it sends nothing more or is refused. Raises StatusError."""
        try:
            while (command := await exchange.read()) is not None:
                exchange.end()
                kind = command.WhichOneof("command")
                if kind == "settings":
                    _answer(client, self._answer_settings(exchange, client, command.settings))
                elif kind in ("thread_stack_trace", "verify_message_result"):
                    client.questions.answered(command)
        except (AccessError, GrpcError) as error:
            exchange.read_no_more()
            _answer(client, set_status(Command(), code_of(error), str(error)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the event loop keeps only weak references to tasks
        task.add_done_callback(self._tasks.discard)

    def _answer_settings(self, exchange: Exchange, client: GrpcClient, settings: Any) -> Any:
        if settings.WhichOneof("pub_sub") is None:
            raise StatusError(
                Status.INVALID_ARGUMENT, "the settings contain neither publishing nor subscription"
            )
        client.account = self._account(exchange)  # the accounts may have changed since the stream began
        if client.account is not None:
            client.account.check(settings_needs(settings), peer_host(exchange.remote))
        try:
            return telemetry.answer_settings(
                self._broker,
                self._clients,
                client,
                settings,
                max_body=self._broker.sender.intake.max_message_bytes,
                max_long_poll_us=self._settings.max_long_poll_us,
            )
        except RefusedError as error:
            raise StatusError(Status.INVALID_ARGUMENT, str(error)) from None

    def _account(self, exchange: Exchange) -> Account | None:
        """Return the account of a request's sender; None without access control. Raises AccessError.

        A client id belongs to the access key that registered it.
        """
        if self._access is None:
            return None
        host = peer_host(exchange.remote)
        account = signer_of(self._access, exchange.stream.headers, host)
        owner = self._clients.owner(exchange.client_id)
        if account is not None and owner not in (None, account.access_key):
            raise AccessError(f"client id {exchange.client_id[:80]} was registered by another accessKey")
        return account

    def _admit(self, name: str, exchange: Exchange, request: Any) -> Call:
        """Check a request and wrap it for its handler. Raises GrpcError, AccessError."""
        client_id, remote = exchange.client_id, exchange.remote
        if not client_id.strip():
            raise GrpcError(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing or blank")
        account = self._account(exchange)
        if account is not None:
            account.check(needs(name, request), peer_host(remote))
        return Call(
            self._broker,
            self._settings,
            self._clients,
            client_id,
            remote,
            request,
            exchange.remaining_s,
            exchange.local,
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


def _answer(client: GrpcClient, command: Any) -> None:
    if not client.commands.put(command):
        raise StatusError(Status.RESOURCE_EXHAUSTED, "unread messages use too much memory; retry later")


def _told(error: Exception) -> tuple[int, str]:
    known = as_emulator_error(error)
    return code_of(known), str(known)
