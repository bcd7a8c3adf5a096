"""Sends messages, singly or in a batch (docs/protocol/remoting.md §2.2).

The header determines whether a request is a batch, not the request code.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

from mocketmq.broker.inspection.recalls import recall_handle_of
from mocketmq.broker.sending.sender import PlainSends, SendResult
from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.errors import (
    EmulatorError,
    IllegalMessageError,
    InvalidArgumentError,
    QueueNotFoundError,
    as_emulator_error,
)
from mocketmq.message import names
from mocketmq.message.broker_share import ALONE
from mocketmq.message.message import Message, Template
from mocketmq.message.message_id import at_host, offset_message_id
from mocketmq.message.properties import CLUSTER, PGROUP, POP_CK, TRAN_MSG, UNIQ_KEY
from mocketmq.remoting import logical_queues
from mocketmq.remoting.access_rule import publishes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.queue_numbers import at_broker
from mocketmq.remoting.request import Reply, Request, RequestFamily
from mocketmq.remoting.requests.send_header import V2_NAMES, SendMessageHeader
from mocketmq.remoting.wire.batch import BatchEntry, decode_batch
from mocketmq.remoting.wire.codes import RequestCode, code_of
from mocketmq.remoting.wire.record import decode_properties
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.schedule.send_receipt import SendReceipt

_EXT: Final = {"MSG_REGION": names.REGION, "TRACE_ON": "true"}  # it is quicker to unpack than its proxy
EXT: Final = MappingProxyType(_EXT)
"""Ext fields of every response to a send, including refusals."""
_PREPARED_OR_ROLLED_BACK: Final = 0x4
_KEPT_FLAGS: Final = 0x70B
"""Bits of sysFlag that are stored: compression and its kind, several tags, committed."""
_LATEST_MS: Final = LATEST_US // US_PER_MS


async def send(call: RemotingCall[SendMessageHeader]) -> Response:
    """Store the message, or all messages of the batch, and return when they are durable."""
    try:
        if call.header.batch:
            return response_to(call, await _send_batch(call))
        return response_to(call, [await _send_one(call)])
    except EmulatorError as error:
        return refusal(call, error)


class _FastSends(PlainSends):
    """A run of sends on the fast path, which makes the responses for remoting clients."""

    __slots__ = ("_calls", "_reply")

    def __init__(self, calls: Sequence[RemotingCall[SendMessageHeader]], reply: Reply) -> None:
        self._calls = calls
        self._reply = reply

    def kept(self, sent: Sequence[SendResult | EmulatorError]) -> None:
        self._reply([_response_to_one(call, one) for call, one in zip(self._calls, sent, strict=True)])

    def refused(self, error: EmulatorError) -> None:
        self._reply([refusal(call, error) for call in self._calls])


def _response_to_one(call: RemotingCall[SendMessageHeader], sent: SendResult | EmulatorError) -> Response:
    """The response to one send of a run. An unexpected error does not affect the other sends."""
    if isinstance(sent, EmulatorError):
        return refusal(call, sent)
    try:
        return response_to(call, [sent])
    except Exception as error:  # noqa: BLE001 - every error is returned to the client
        return refusal(call, as_emulator_error(error))


def begin_to_send(calls: Sequence[RemotingCall[SendMessageHeader]], reply: Reply) -> bool:
    """Begin to store plain messages, that is, no batch, half message, retry or timed message."""
    messages: list[Message] = []
    born_us: dict[int, int] = {}  # most messages of a run share a born timestamp
    for call in calls:
        header = call.header
        if header.batch:
            return False
        properties = decode_properties(header.properties)
        if _is_transactional(call, properties):
            return False
        born_ms = header.born_timestamp
        if born_ms not in born_us:
            born_us[born_ms] = _born_us(call)
        messages.append(_message(call, call.command.body, properties, header.flag, born_us[born_ms]))
    sender = calls[0].broker.sender
    accepted = sender.intake.accept_run(messages, drops_wait=_drops_wait(calls[0]))
    if accepted is None:
        return False
    sender.begin_plain(_FastSends(calls, reply), accepted)
    return True


async def _send_one(call: RemotingCall[SendMessageHeader]) -> SendResult:
    properties = decode_properties(call.header.properties)
    message = message_of(call, call.command.body, properties, call.header.flag)
    if _is_transactional(call, properties) and not _is_retry(call, properties):
        group = properties.get(PGROUP) or call.header.producer_group
        half = await call.broker.half_messages.prepare_checked(message, group)
        message_id = offset_message_id(half.stored.store_host, half.stored.log_offset)
        return SendResult(
            half.stored, half.queue, 0, SendReceipt(message_id, half.queue.queue_id, half.stored.queue_offset)
        )
    return await call.broker.sender.send(message, drops_wait=_drops_wait(call))


async def _send_batch(call: RemotingCall[SendMessageHeader]) -> list[SendResult]:
    size, allowed = len(call.command.body), call.broker.sender.intake.max_message_bytes
    if size > allowed:
        raise IllegalMessageError("body", f"the batch has {size} bytes; allowed: 1 to {allowed}")
    entries = decode_batch(call.command.body)
    common = decode_properties(call.header.properties)
    common.pop(UNIQ_KEY, None)  # 5.x clients would take messages with the same key for a single message
    return await call.broker.sender.send_together(_batch_message(call, entry, common) for entry in entries)


def _batch_message(
    call: RemotingCall[SendMessageHeader], entry: BatchEntry, common: dict[str, str]
) -> Message:
    properties = decode_properties(entry.properties) | common
    if _is_transactional(call, properties):
        raise IllegalMessageError("properties", "a message of a batch cannot be transactional")
    return message_of(call, entry.body, properties, entry.flag)


def _is_transactional(call: RemotingCall[SendMessageHeader], properties: dict[str, str]) -> bool:
    is_half = properties.get(TRAN_MSG, "").lower() == "true"
    return is_half or bool(call.header.sys_flag & _PREPARED_OR_ROLLED_BACK)


def _is_retry(call: RemotingCall[SendMessageHeader], properties: dict[str, str]) -> bool:
    """Whether a consumer resends the message as a retry, which may still look like a half message."""
    return call.header.reconsume_times > 0 and call.broker.levels.table.level_of(properties) > 0


def _drops_wait(call: RemotingCall[SendMessageHeader]) -> bool:
    """Whether the property ``WAIT`` is dropped, as by RocketMQ 4 (SendMessageProcessor.java)."""
    return call.settings.server_version < V5_0_0


def message_of(
    call: RemotingCall[SendMessageHeader], body: bytes, properties: dict[str, str], flag: int
) -> Message:
    """The message of a request, or one message of its batch. Raises InvalidArgumentError."""
    return _message(call, body, properties, flag, _born_us(call))


def _born_us(call: RemotingCall[SendMessageHeader]) -> int:
    """The emulated instant at which the client made the message. Raises InvalidArgumentError."""
    born_ms = call.header.born_timestamp
    if not 0 <= born_ms <= _LATEST_MS:
        raise InvalidArgumentError("bornTimestamp", born_ms, f"0 to {_LATEST_MS}")
    return call.broker.clock.from_wall(born_ms * US_PER_MS)


def _message(
    call: RemotingCall[SendMessageHeader], body: bytes, properties: dict[str, str], flag: int, born_us: int
) -> Message:
    header = call.header
    if header.reconsume_times < 0:
        raise InvalidArgumentError("reconsumeTimes", header.reconsume_times, "0 or more")
    properties.pop(POP_CK, None)
    properties[CLUSTER] = names.CLUSTER
    return Message(
        header.topic,
        body,
        properties,
        header.queue_id,
        flag,
        header.sys_flag & _KEPT_FLAGS,
        born_us,
        _as_ipv4(call.channel.remote),
        header.reconsume_times,
        header.max_reconsume_times if call.command.tells_max_retries else None,
        Template(header.default_topic, header.default_topic_queue_nums),
        call.channel.door,
    )


@lru_cache(maxsize=4_096)
def _as_ipv4(remote: str) -> str:
    """The client's address for records, which hold only IPv4. An IPv6 address becomes 127.0.0.1."""
    host, _, port = remote.rpartition(":")
    return f"127.0.0.1:{port}" if ":" in host else remote


def response_to(call: RemotingCall[SendMessageHeader], sent: list[SendResult]) -> Response:
    """The response to a stored send."""
    first, host, share = sent[0].receipt, call.channel.store_host, call.channel.share
    ext = {
        **_EXT,
        "msgId": ",".join([at_host(one.receipt.offset_message_id, host) for one in sent]),
        "queueId": str(
            first.queue_id if share is ALONE else share.queue_id(call.header.topic, first.queue_id)
        ),
        "queueOffset": str(first.queue_offset),
    }
    if not call.header.batch:
        ext["transactionId"] = sent[0].stored.unique_key
        handle = recall_handle_of(
            sent[0], call.broker.registry.brokers, of_levels=call.settings.recall_levels
        )
        if handle is not None:
            ext["recallHandle"] = handle
    return Response(ext)


def refusal(call: RemotingCall[SendMessageHeader], error: EmulatorError) -> Response:
    """The response to a refused send."""
    return Response(EXT, code=code_of(error, call.settings.server_version), remark=_remark(call, error))


def _remark(call: RemotingCall[SendMessageHeader], error: EmulatorError) -> str:
    """The remark of a refusal. For an error in body or properties, it begins with RocketMQ's text."""
    if isinstance(error, QueueNotFoundError):
        return str(at_broker(error, call.channel.share))
    if not isinstance(error, IllegalMessageError) or error.field not in ("body", "properties"):
        return str(error)
    limit = call.broker.sender.intake.max_message_bytes
    return (
        "the message is illegal, maybe msg body or properties length not matched."
        f" msg body length limit {limit}B, msg properties length limit 32KB. {error}"
    )


SENDING: Final = RequestFamily("Producing")
_declare: Final = partial(Request, SENDING, header=SendMessageHeader, logical=logical_queues.send)
_declare(RequestCode.SEND_MESSAGE, access=publishes("topic"), fast_path=begin_to_send, has_runs=True)(send)
_declare(
    RequestCode.SEND_MESSAGE_V2, access=publishes("b"), names=V2_NAMES, fast_path=begin_to_send, has_runs=True
)(send)
_declare(RequestCode.SEND_BATCH_MESSAGE, access=publishes("b"), names=V2_NAMES)(send)
