"""Serves Aliyun's HTTP protocol: authenticates requests and calls their operations."""

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.access.accounts import Account
from mocketmq.access.needs import Need, to_consume, to_produce
from mocketmq.broker.broker import Broker
from mocketmq.errors import InvalidArgumentError, UnauthorizedError, as_emulator_error
from mocketmq.faults.injector import RequestAttributes
from mocketmq.faults.rule import Operation
from mocketmq.http_api import web
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.fault_injection import clients_of, serve_with_faults
from mocketmq.http_api.listener import UNMATCHED, RoutedResponse
from mocketmq.http_api.request import host_of
from mocketmq.settings import Settings
from mocketmq_compat.aliyun_http.answer import XmlAnswer, failure, new_request_id
from mocketmq_compat.aliyun_http.call import (
    AliyunCall,
    check_request_line,
    in_namespace,
    parameters_in,
    topic_in,
)
from mocketmq_compat.aliyun_http.consuming import (
    acknowledge,
    commit,
    consume,
    consume_half_messages,
    consume_in_order,
    rollback,
)
from mocketmq_compat.aliyun_http.errors import AliyunError
from mocketmq_compat.aliyun_http.publishing import publish
from mocketmq_compat.aliyun_http.signature import check_digest, check_signature

_TEMPLATE: Final = "/topics/{topic}/messages"


_Operation = Callable[[AliyunCall], Coroutine[object, object, XmlAnswer]]


class _Method(NamedTuple):
    parameters: frozenset[str]
    operations: dict[str, _Operation]  # by the parameter ``trans``


_METHODS: Final = {
    "POST": _Method(frozenset({"ns"}), {"": publish}),
    "GET": _Method(
        frozenset({"consumer", "ns", "numOfMessages", "tag", "trans", "waitseconds"}),
        {"": consume, "order": consume_in_order, "pop": consume_half_messages},
    ),
    "DELETE": _Method(
        frozenset({"consumer", "ns", "trans"}), {"": acknowledge, "commit": commit, "rollback": rollback}
    ),
}
_OF_CONSUMERS: Final = {consume, consume_in_order, acknowledge}
"""Operations of consumers. All other operations belong to producers, even the pop of half messages."""

_DOOR: Final = "aliyun"
_WORDS: Final[dict[_Operation, Operation]] = {
    publish: "send",
    consume: "receive",
    consume_in_order: "receive",
    consume_half_messages: "receive",
    acknowledge: "ack",
    commit: "end-transaction",
    rollback: "end-transaction",
}
"""Names of the operations in fault rules, which are the same for all protocols."""
_NAMES: Final = {
    operation: (word, getattr(operation, "__name__", word)) for operation, word in _WORDS.items()
}
_MESSAGE_ID: Final = re.compile(rb"<MessageId>([^<]+)</MessageId>")


class AliyunDoor:
    """Handles the protocol's requests, and returns errors in its own form."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None, bodies: Bodies) -> None:
        self._broker = broker
        self._settings = settings
        self._access = access
        self._bodies = bodies

    @property
    def operations(self) -> Iterable[str]:
        """Return all names of operations that fault rules can match."""
        return chain.from_iterable(_NAMES.values())

    async def answer(self, request: web.BaseRequest) -> RoutedResponse:
        """Handle a request. Raises only CancelledError, when the client disconnects."""
        request_id = new_request_id()
        template = UNMATCHED
        try:
            check_request_line(request)
            account = self._account(request)
            topic = topic_in(request)
            template = _TEMPLATE
            answer = await self._operate(request, topic, account)
        except Exception as error:  # noqa: BLE001 - every error is returned in the protocol's form
            answer = failure(as_emulator_error(error), request_id, f"http://{host_of(request)}")
        return RoutedResponse(template, answer.response(request_id))

    def _account(self, request: web.BaseRequest) -> Account | None:
        """Return the account that signed the request; None for a client that needs no permissions.

        Without accounts, no client needs permissions, signed or not. Raises UnauthorizedError without
        accounts if the JSON API requires a token.
        """
        if self._access is not None:
            accounts, host = self._access.accounts, request.remote or ""
            return check_signature(request.method, request.raw_path, request.headers, accounts, host)
        if self._settings.token:
            raise UnauthorizedError(
                "this broker requires a token, which this protocol cannot carry; configure access_keys or acl"
                " as well"
            )
        return None

    async def _operate(self, request: web.BaseRequest, topic: str, account: Account | None) -> XmlAnswer:
        method = _METHODS.get(request.method)
        if method is None:
            raise AliyunError(
                "InvalidRequestURL",
                f"{_TEMPLATE} does not accept {request.method}; allowed: {', '.join(_METHODS)}",
            )
        parameters = parameters_in(request, method.parameters)
        operation = method.operations.get(trans := parameters.get("trans", ""))
        if operation is None:
            raise InvalidArgumentError("trans", trans, ", ".join(filter(None, method.operations)))
        content = await self._bodies.read(request)
        check_digest(request.headers.get("Content-MD5"), content)
        topic = in_namespace(parameters.get("ns"), topic)
        turns = self._bodies.turns
        call = AliyunCall(self._broker, self._settings, request, topic, parameters, content, turns)
        if account is not None:
            account.check(_needs(call, operation in _OF_CONSUMERS), request.remote or "")
        if self._broker.faults.of_requests:
            return await self._operate_faultily(call, operation)
        return await operation(call)

    async def _operate_faultily(self, call: AliyunCall, operation: _Operation) -> XmlAnswer:
        consumer = call.parameters.get("consumer")
        group = in_namespace(call.parameters.get("ns"), consumer) if consumer else None
        clients, only_broker = clients_of(call.request), self._broker.registry.brokers.only_name
        attributes = RequestAttributes(
            _DOOR, _NAMES[operation], call.topic, group, clients, broker=only_broker
        )
        act = partial(operation, call)
        return await serve_with_faults(self._broker.faults, attributes, call.request, act, _message_id)


def _message_id(answer: XmlAnswer) -> str | None:
    """Return the id of the sent message."""
    found = _MESSAGE_ID.search(answer.body)
    return found[1].decode() if found and answer.status == HTTPStatus.CREATED else None


def _needs(call: AliyunCall, is_of_consumer: bool) -> Iterator[Need]:
    return to_consume(call.topic, call.group) if is_of_consumer else to_produce(call.topic)
