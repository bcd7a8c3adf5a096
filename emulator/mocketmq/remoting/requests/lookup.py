"""Looks up messages by key, unique key or log offset (docs/protocol/remoting.md §2.8)."""

from typing import Final

from mocketmq.access.needs import Action
from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.remoting.access_rule import consumes, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32, RequestHeader
from mocketmq.remoting.wire.record import encode_record


class QueryMessageHeader(RequestHeader):
    """Times are in milliseconds. If ``unique_key_query`` is set, ``key`` is a unique key.

    In 5.5, ``index_type`` is K for keys, U for unique keys, or T for tags.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool = False
    index_type: str = ""


class ViewMessageHeader(RequestHeader):
    """``offset`` is a log offset."""

    offset: int


_MAX_FOUND: Final = 64
_MAX_BY_UNIQUE_KEY: Final = 32
"""Maximum number of messages in a response, as in RocketMQ (maxMsgsNumBatch, defaultQueryMaxNum)."""
_MAX_BYTES: Final = 4 << 20
"""Maximum size of all records in a response, unless the newest record alone is larger."""
_NO_TAGS: Final = (
    "indexType is T, for tags; allowed: K, for keys. GET /v1/message-states finds messages by tag"
)
_LATE_US: Final = 10 * US_PER_S
"""Maximum age at which the end of a time range means "now", if the clock does not run at real speed.

Such a range counts as unbounded. Its end may be this old because clients of 5.3 may wait 3 s for a lock of
their own, more than once, before they send the request (NettyRemotingClient.java).
"""


LOOKUP: Final = RequestFamily("Message queries")


@Request(
    LOOKUP,
    RequestCode.QUERY_MESSAGE,
    access=consumes("topic", actions=Action.SUB | Action.GET),
    names={"unique_key_query": "_UNIQUE_KEY_QUERY"},
    is_reading=True,
    is_for_slaves=True,
)
async def query(call: RemotingCall[QueryMessageHeader]) -> Response:
    """Return the newest messages that have a key.

    For a unique key, the time range is ignored. Clients derive the range from the time in the key, but the
    broker's clock may have been moved since.
    """
    header, broker = call.header, call.broker
    if header.index_type == "T":
        raise RemotingError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, _NO_TAGS)
    limit = min(header.max_num, _MAX_FOUND)
    from_us = broker.clock.from_wall(header.begin_timestamp * US_PER_MS)
    to_us = broker.clock.from_wall(header.end_timestamp * US_PER_MS) + US_PER_MS - 1
    if broker.clock.rate != 1 and to_us >= broker.clock.now_us() - _LATE_US:
        to_us = LATEST_US
    if header.unique_key_query:
        limit, from_us, to_us = _MAX_BY_UNIQUE_KEY, 0, LATEST_US
    found: list[StoredMessage] = []
    if limit > 0:
        load = call.channel.load()
        await load.wait_for_room()
        share = call.channel.share  # only this broker's queues, because tools ask all brokers of a topic
        found = await broker.histories.query(
            header.topic, header.key, limit, from_us, to_us, _MAX_BYTES, share
        )
        load.settle(sum(len(one.body) for one in found))
    ext = {
        "indexLastUpdateTimestamp": str(broker.store.writer.last_store_us // US_PER_MS),
        "indexLastUpdatePhyoffset": str(broker.store.writer.next_log_offset - 1),
    }
    if not found:
        remark = "can not find message, maybe time range not correct"
        return Response(ext, code=ResponseCode.QUERY_NOT_FOUND, remark=remark)
    records: list[bytes] = []
    size = 0
    for record in (_record(call, one) for one in reversed(found)):
        size += len(record)
        if records and size > _MAX_BYTES:
            break
        records.append(record)
    return Response(ext, b"".join(reversed(records)))


@Request(
    LOOKUP, RequestCode.VIEW_MESSAGE_BY_ID, access=reads(topic="topic"), is_reading=True, is_for_slaves=True
)
async def view(call: RemotingCall[ViewMessageHeader]) -> Response:
    """Return the record at a log offset, in any queue."""
    load = call.channel.load()
    await load.wait_for_room()
    try:
        found = await call.broker.histories.at(call.header.offset)
    except MessageNotFoundError as error:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    load.settle(len(found.body))
    return Response(body=_record(call, found))


def _record(
    call: RemotingCall[QueryMessageHeader] | RemotingCall[ViewMessageHeader], message: StoredMessage
) -> bytes:
    queue = call.broker.registry.topics.queue(message.queue_key)
    queue_id = call.channel.share.queue_id(queue.topic, queue.queue_id)
    return encode_record(message, queue.topic, queue_id, call.channel.store_host)
