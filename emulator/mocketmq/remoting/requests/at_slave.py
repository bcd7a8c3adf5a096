"""Serves requests to a broker's slave: reads, and commits of offsets while the broker is down.

A slave shares the store of its broker. While it is behind, it shows only messages up to an instant (see
``broker/replication.py``). A slave accepts no messages, locks no queues, and changes no topics or groups. As
an acting master, it locks queues, but still accepts no messages.

Source: the processors of 5.5.0 in the role SLAVE, with ``slaveReadEnable``
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Handler, Request
from mocketmq.remoting.requests import locks, offsets, pulling
from mocketmq.remoting.requests.queue_headers import QueueHeader
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import NoHeader
from mocketmq.remoting.wire.pull_flags import COMMIT_OFFSET, SUSPEND
from mocketmq.rocketmq_versions import V5_0_0

_SENDS: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)


def requests_at_slave(requests: Mapping[int, Request]) -> dict[int, Request]:
    """Copy the requests for slaves, with handlers that serve or refuse them, and without fast paths."""
    return {code: _at_slave(code, request) for code, request in requests.items()}


def _at_slave(code: int, request: Request) -> Request:
    changed = dataclasses.replace(request, fast_path=None, effect=None)
    changed.handler = _HANDLERS.get(code, request.handler if request.is_for_slaves else _refuse)
    return changed


async def _pull(call: RemotingCall[pulling.PullMessageHeader]) -> Response:
    """Answer a pull like the broker, but without committing or correcting the consumer's offset.

    While the slave is behind, pulls do not wait, because nothing wakes them when the slave gets messages.
    """
    registered = call.broker.registry.brokers[call.channel.share.position]
    until_us = call.broker.replication.replicated_us(registered)
    is_behind = registered.state == "running" and until_us is not None
    cleared = COMMIT_OFFSET | SUSPEND if is_behind else COMMIT_OFFSET
    header = replace(call.header, sys_flag=call.header.sys_flag & ~cleared)
    response = await pulling.pull_until(call.with_header(header), until_us)
    if response.code == ResponseCode.PULL_OFFSET_MOVED and response.remark != PullStatus.OFFSET_RESET.value:
        ext = {**response.ext, "nextBeginOffset": str(header.queue_offset)}
        return Response(ext, response.body, ResponseCode.PULL_RETRY_IMMEDIATELY, response.remark)
    if is_behind and response.code != ResponseCode.SUCCESS:
        return Response(response.ext, response.body, ResponseCode.PULL_RETRY_IMMEDIATELY, response.remark)
    return response


async def _max_offset(call: RemotingCall[QueueHeader]) -> Response:
    registered = call.broker.registry.brokers[call.channel.share.position]
    until_us = call.broker.replication.replicated_us(registered)
    queue = call.broker.registry.topics.find_queue(call.header.topic, call.header.queue_id)
    if queue is None or until_us is None:
        return await offsets.max_offset(call)
    return Response({"offset": str(await call.broker.pull.end_at(queue, until_us))})


async def _query_offset(call: RemotingCall[offsets.QueryConsumerOffsetHeader]) -> Response:
    header = call.header
    queue = call.broker.registry.topics.find_queue(header.topic, header.queue_id)
    offset = call.broker.slave_offsets.committed(header.consumer_group, queue) if queue else None
    return await offsets.query(call) if offset is None else Response({"offset": str(offset)})


async def _update_offset(call: RemotingCall[offsets.UpdateConsumerOffsetHeader]) -> Response:
    header = call.header
    group, offset = header.consumer_group, header.commit_offset
    queue = call.broker.registry.topics.find_queue(header.topic, header.queue_id)
    is_known = call.broker.registry.groups.find_group(group) is not None
    if is_known and queue is not None and 0 <= offset <= queue.next_offset:
        call.broker.slave_offsets.commit(group, queue, offset)
    return Response()


async def _lock(call: RemotingCall[NoHeader]) -> Response:
    """Lock queues only as an acting master, because the broker may lock the same queues for other clients."""
    return await locks.lock(call) if _is_acting(call) else Response(body=dumps({"lockOKMQSet": []}))


async def _unlock(call: RemotingCall[NoHeader]) -> Response:
    return await (locks.unlock(call) if _is_acting(call) else _refuse(call))


def _is_acting(call: RemotingCall[Any]) -> bool:
    brokers = call.broker.registry.brokers
    return brokers.is_acting(brokers[call.channel.share.position])


async def _refuse_send(call: RemotingCall[Any]) -> Response:
    _reject(call)
    raise RemotingError(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: the broker's disk is"
        " full, messages are put to the slave, message store has been shut down, etc.",
    )


async def _refuse_send_back(call: RemotingCall[Any]) -> Response:
    _reject(call)
    raise RemotingError(ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")


def _reject(call: RemotingCall[Any]) -> None:
    """Refuse a message as 5.x does before it decodes the request, unless slaves may act as masters."""
    if call.settings.server_version >= V5_0_0 and not call.broker.registry.brokers.has_acting_masters:
        raise RemotingError(
            ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while"
        )


async def _refuse_decision(_call: RemotingCall[Any]) -> Response:
    raise RemotingError(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave cannot end transactions; its broker can")


async def _refuse_reset(_call: RemotingCall[Any]) -> Response:
    raise RemotingError(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")


async def _refuse(call: RemotingCall[Any]) -> Response:
    name = call.channel.share.name
    raise RemotingError(
        ResponseCode.SYSTEM_ERROR, f"the slave of {name} only serves reads; send this request to {name}"
    )


_HANDLERS: Final[Mapping[int, Handler]] = {
    **dict.fromkeys(_SENDS, _refuse_send),
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: _query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: _update_offset,
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _unlock,
    RequestCode.CONSUMER_SEND_MSG_BACK: _refuse_send_back,
    RequestCode.END_TRANSACTION: _refuse_decision,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _refuse_reset,
}
