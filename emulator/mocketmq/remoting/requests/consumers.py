"""Forwards requests of admin tools to connected consumers (docs/protocol/remoting.md §2.6)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from mocketmq.broker.registry.clients import ClientAnswer
from mocketmq.errors import InvalidArgumentError, MessageNotFoundError
from mocketmq.remoting.access_rule import consumes, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps, loads, object_keys
from mocketmq.remoting.wire.header import RequestHeader


class RunningInfoHeader(RequestHeader):
    """``jstack_enable`` requests the stacks of the client's threads."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(RequestHeader):
    """``msg_id`` is an offset message id or, in mocketmq, a unique key."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None


class ConsumerStatusHeader(RequestHeader):
    """``client_addr`` is the id of the client to ask. The default is all clients."""

    topic: str
    group: str
    client_addr: str | None = None


CONSUMERS: Final = RequestFamily("Consumer inspection")


@Request(
    CONSUMERS, RequestCode.GET_CONSUMER_RUNNING_INFO, access=reads(group="consumerGroup"), is_for_slaves=True
)
async def running_info(call: RemotingCall[RunningInfoHeader]) -> Response:
    """Return the running info that a consumer reports."""
    header = call.header
    answer = await call.broker.consumers.running_info(
        header.consumer_group, header.client_id, with_stacks=header.jstack_enable
    )
    return Response(body=answer.text)


@Request(CONSUMERS, RequestCode.CONSUME_MESSAGE_DIRECTLY, access=consumes("topic", "consumerGroup"))
async def consume_directly(call: RemotingCall[ConsumeDirectlyHeader]) -> Response:
    """Make a consumer consume a message now, and return its result."""
    header = call.header
    try:
        answer = await call.broker.consumers.consume(
            header.consumer_group, header.client_id or "", header.msg_id or ""
        )
    except MessageNotFoundError as error:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Response(body=answer.text)


@Request(
    CONSUMERS, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, access=reads(topic="topic", group="group")
)
async def consumer_status(call: RemotingCall[ConsumerStatusHeader]) -> Response:
    """Return the offsets that a group's consumers have reached, by client id."""
    header = call.header
    answers = await call.broker.consumers.offsets(header.group, header.topic, header.client_addr or "")
    tables = {client_id: _offsets(one) for client_id, one in answers.items()}
    return Response(body=dumps({"messageQueueTable": {}, "consumerTable": tables}))


def _offsets(answer: ClientAnswer) -> msgspec.Raw:
    """A client's offsets with queues as keys. Entries with other keys are left out."""
    table = answer.content.get("messageQueueTable") if isinstance(answer.content, Mapping) else None
    pairs = table.items() if isinstance(table, Mapping) else ()
    queues = ((_queue(name), offset) for name, offset in pairs)
    return object_keys((queue, offset) for queue, offset in queues if isinstance(queue, Mapping))


def _queue(name: str) -> Any:
    with suppress(InvalidArgumentError):
        return loads(name.encode())
    return None
