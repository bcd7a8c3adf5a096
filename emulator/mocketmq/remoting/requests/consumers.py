"""Consumers asked on behalf of people: 223, 307 and 309 (sheet 2.6, 2.10)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.broker.registry.clients import ClientAnswer
from mocketmq.errors import InvalidArgumentError, MessageNotFoundError
from mocketmq.remoting.access_rule import KEY, consumes
from mocketmq.remoting.request import RemotingCall, Request, RequestFamily, Response
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.fastjson import dumps, loads, object_keys


class RunningInfoHeader(NamedTuple):
    """2.6."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(NamedTuple):
    """2.6; ``msg_id`` is an offset message id or, here, a unique key."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None


class ConsumerStatusHeader(NamedTuple):
    """2.10; ``client_addr`` is the id of the only client that is asked."""

    topic: str
    group: str
    client_addr: str | None = None


async def running_info(call: RemotingCall[RunningInfoHeader]) -> Response:
    """What a consumer does at the moment, as it tells it."""
    header = call.header
    told = await call.broker.looking.consumers.running_info(
        header.consumer_group, header.client_id, with_stacks=header.jstack_enable
    )
    return Response(body=told.text)


async def consume_directly(call: RemotingCall[ConsumeDirectlyHeader]) -> Response:
    """A consumer consumes a message now, and says what came of it."""
    header = call.header
    try:
        told = await call.broker.looking.consumers.consume(
            header.consumer_group, header.client_id or "", header.msg_id or ""
        )
    except MessageNotFoundError as error:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Response(body=told.text)


async def consumer_status(call: RemotingCall[ConsumerStatusHeader]) -> Response:
    """How far the consumers of a group are, by their ids."""
    header = call.header
    told = await call.broker.looking.consumers.offsets(header.group, header.topic, header.client_addr or "")
    tables = {client_id: _offsets(one) for client_id, one in told.items()}
    return Response(body=dumps({"messageQueueTable": {}, "consumerTable": tables}))


def _offsets(told: ClientAnswer) -> msgspec.Raw:
    """The offsets of a client, with objects as keys; what has others is passed over."""
    table = told.content.get("messageQueueTable") if isinstance(told.content, Mapping) else None
    pairs = table.items() if isinstance(table, Mapping) else ()
    queues = ((_queue(name), offset) for name, offset in pairs)
    return object_keys((queue, offset) for queue, offset in queues if isinstance(queue, Mapping))


def _queue(name: str) -> Any:
    with suppress(InvalidArgumentError):
        return loads(name.encode())
    return None


CONSUMERS: Final = RequestFamily(
    "Consumers looked into",
    [
        Request(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            ConsumerStatusHeader,
            consumer_status,
            access=KEY,
        ),
        Request(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, running_info, access=KEY),
        Request(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            ConsumeDirectlyHeader,
            consume_directly,
            access=consumes("topic", "consumerGroup"),
        ),
    ],
)
