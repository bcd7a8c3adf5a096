"""Aliyun's HTTP protocol as a door of the HTTP server: who may come in, and which operation is meant."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp import web

from compat.aliyun_http.answer import Answer, failure, new_request_id
from compat.aliyun_http.call import Call, check_request_line, in_namespace, parameters_in, topic_in
from compat.aliyun_http.consuming import (
    acknowledge,
    commit,
    consume,
    consume_half_messages,
    consume_in_order,
    rollback,
)
from compat.aliyun_http.errors import AliyunError, known
from compat.aliyun_http.publishing import publish
from compat.aliyun_http.signature import check_digest, check_signature
from emulator.broker.broker import Broker
from emulator.errors import InvalidArgumentError, UnauthorizedError
from emulator.http_api import door
from emulator.http_api.request import content_of, host_of, max_body_bytes
from emulator.settings import Settings

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


class AliyunDoor:
    """Answers every request in the protocol's own form."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._settings = settings
        self._max_body_bytes = max_body_bytes(settings)

    async def answer(self, request: web.BaseRequest) -> door.Answer:
        """Never raises, but when it is cancelled because the client has gone."""
        request_id = new_request_id()
        template = door.UNMATCHED
        try:
            check_request_line(request)
            self._authorize(request)
            topic = topic_in(request)
            template = _TEMPLATE
            answer = await self._operate(request, topic)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told in its own way
            answer = failure(known(error), request_id, f"http://{host_of(request)}")
        return door.Answer(template, answer.response(request_id))

    def _authorize(self, request: web.BaseRequest) -> None:
        """Without access keys everybody is let in, signed or not, unless the JSON API asks for a token."""
        keys = self._settings.access_keys
        if keys:
            check_signature(request.method, request.raw_path, request.headers, keys)
        elif self._settings.token:
            raise UnauthorizedError(
                "this emulator has a token, which this protocol cannot carry; configure access_keys as well"
            )

    async def _operate(self, request: web.BaseRequest, topic: str) -> Answer:
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
        return await operation(Call(self._broker, self._settings, request, topic, parameters, content))
