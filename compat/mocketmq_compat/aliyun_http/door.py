"""Aliyun's HTTP protocol as a door of the HTTP server: who may come in, and which operation is meant."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from aiohttp import web
from mocketmq.access.access import Access
from mocketmq.access.accounts import Account, Need, Permission, group_need, topic_need
from mocketmq.broker.broker import Broker
from mocketmq.errors import InvalidArgumentError, UnauthorizedError, as_emulator_error
from mocketmq.http_api import door
from mocketmq.http_api.request import content_of, host_of, max_body_bytes
from mocketmq.settings import Settings

from mocketmq_compat.aliyun_http.answer import Answer, failure, new_request_id
from mocketmq_compat.aliyun_http.call import Call, check_request_line, in_namespace, parameters_in, topic_in
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

SEGMENT: Final = "topics"
"""Paths that begin with it are this door's."""

_TEMPLATE: Final = "/topics/{topic}/messages"


class _Method(NamedTuple):
    parameters: frozenset[str]
    operations: dict[str, Callable[[Call], Awaitable[Answer]]]  # by the parameter trans


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
"""The others are of producers, also those that settle half messages."""


class AliyunDoor:
    """Answers every request in the protocol's own form."""

    def __init__(self, broker: Broker, settings: Settings, access: Access | None = None) -> None:
        self._broker = broker
        self._settings = settings
        self._access = access
        self._max_body_bytes = max_body_bytes(settings)

    async def answer(self, request: web.BaseRequest) -> door.Answer:
        """Never raises, but when it is cancelled because the client has gone."""
        request_id = new_request_id()
        template = door.UNMATCHED
        try:
            check_request_line(request)
            account = self._account(request)
            topic = topic_in(request)
            template = _TEMPLATE
            answer = await self._operate(request, topic, account)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told in its own way
            answer = failure(as_emulator_error(error), request_id, f"http://{host_of(request)}")
        return door.Answer(template, answer.response(request_id))

    def _account(self, request: web.BaseRequest) -> Account | None:
        """Who may do what its account says; None is for those who may do everything.

        Without accounts that is everybody, signed or not, unless the JSON API asks for a token.
        """
        if self._access is not None:
            accounts, host = self._access.accounts, request.remote or ""
            return check_signature(request.method, request.raw_path, request.headers, accounts, host)
        if self._settings.token:
            raise UnauthorizedError(
                "this emulator has a token, which this protocol cannot carry; configure access_keys or acl"
                " as well"
            )
        return None

    async def _operate(self, request: web.BaseRequest, topic: str, account: Account | None) -> Answer:
        method = _METHODS.get(request.method)
        if method is None:
            raise AliyunError(
                "InvalidRequestURL", f"{_TEMPLATE} takes no {request.method}; allowed: {', '.join(_METHODS)}"
            )
        parameters = parameters_in(request, method.parameters)
        operation = method.operations.get(trans := parameters.get("trans", ""))
        if operation is None:
            raise InvalidArgumentError("trans", trans, ", ".join(filter(None, method.operations)))
        content = await content_of(request, self._max_body_bytes)
        check_digest(request.headers.get("Content-MD5"), content)
        topic = in_namespace(parameters.get("ns"), topic)
        call = Call(self._broker, self._settings, request, topic, parameters, content)
        if account is not None:
            account.check(_needs(call, operation in _OF_CONSUMERS))
        return await operation(call)


def _needs(call: Call, is_of_consumer: bool) -> Iterator[Need]:
    if is_of_consumer:
        yield group_need(call.group)
    yield topic_need(call.topic, Permission.SUB if is_of_consumer else Permission.PUB)
