"""Receive and acknowledge messages, and pop, commit and roll back half messages.

Source: docs/protocol/aliyun.md §1.8 to §1.10.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mocketmq.broker.consuming.handles import check_handle
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.settler import Settled
from mocketmq.broker.filters.filter import TagFilter
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import ReceiptError
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.request import is_lost
from mocketmq.message.body import body_of
from mocketmq.message.properties import TAGS, decode_properties
from mocketmq_compat.aliyun_http import properties as property_string
from mocketmq_compat.aliyun_http.answer import NAMESPACE, XmlAnswer, failures, nested
from mocketmq_compat.aliyun_http.call import AliyunCall
from mocketmq_compat.aliyun_http.document import document, leaves_of, representable
from mocketmq_compat.aliyun_http.errors import AliyunError
from mocketmq_compat.aliyun_http.publishing import md5_of

MAX_MESSAGES: Final = 16
MAX_WAIT_S: Final = 30
"""Longest wait for messages, in real seconds. Every client waits longer than this for a response (H-6)."""
MAX_RETRIES: Final = 287
"""Retry limit of groups created over this protocol: the 288th delivery of a message is the last one."""


async def consume(call: AliyunCall) -> XmlAnswer:
    """Take up to ``numOfMessages`` visible messages, waiting up to ``waitseconds`` for the first."""
    return await _consume(call, call.settings.aliyun_invisible_us, ordered=False)


async def consume_in_order(call: AliyunCall) -> XmlAnswer:
    """Like ``consume``, but skip queues with messages in flight for the group."""
    return await _consume(call, call.settings.aliyun_ordered_invisible_us, ordered=True)


async def _consume(call: AliyunCall, invisible_us: int, *, ordered: bool) -> XmlAnswer:
    group, max_messages, wait_s, tag_filter = _wishes(call)
    # Check the topic before creating the group, because a refused request must leave no new group behind.
    await call.broker.registry.used_topics.for_receive(call.topic)
    await call.broker.registry.groups.for_use(group, MAX_RETRIES)
    receiver = call.broker.receiver
    taken = await receiver.receive(
        group,
        call.topic,
        max_messages=max_messages,
        invisible_us=invisible_us,
        wait_s=wait_s,
        tag_filter=tag_filter,
        ordered=ordered,
        load=load_of(call.request),
    )
    if taken and is_lost(call.request):
        await receiver.release(group, taken)
    return _messages(call, taken)


async def consume_half_messages(call: AliyunCall) -> XmlAnswer:
    """Take pending half messages; they are redelivered until they are committed or rolled back.

    Any group may take a half message, not only its producer's group.
    """
    _, max_messages, wait_s, tag_filter = _wishes(call)
    taken = await call.broker.popped_halves.pop(
        call.topic,
        max_messages=max_messages,
        wait_s=wait_s,
        tag_filter=tag_filter,
        load=load_of(call.request),
    )
    return _messages(call, taken)


async def acknowledge(call: AliyunCall) -> XmlAnswer:
    """Acknowledge messages by their handles; the response lists the invalid handles."""
    group = call.group

    async def settle(handles: Sequence[str]) -> Settled:
        settled, of_topic = Settled([], []), []
        for handle in handles:
            try:
                check_handle(handle, group, call.topic)
            except ReceiptError as error:
                settled.failed.append((handle, error.with_traceback(None)))  # which refers to ``settled``
            else:
                of_topic.append(handle)
        if of_topic:  # otherwise the group may not exist
            done, failed = await call.broker.settler.acknowledge(group, of_topic)
            settled.done.extend(done)
            settled.failed.extend(failed)
        return settled

    return await _settle(call, settle)


async def commit(call: AliyunCall) -> XmlAnswer:
    """Commit half messages by their handles; no group is needed (H-7)."""
    return await _settle(call, lambda handles: call.broker.popped_halves.commit(call.topic, handles))


async def rollback(call: AliyunCall) -> XmlAnswer:
    """Roll half messages back by their handles; no group is needed (H-7)."""
    return await _settle(call, lambda handles: call.broker.popped_halves.rollback(call.topic, handles))


async def _settle(call: AliyunCall, settle: Callable[[Sequence[str]], Awaitable[Settled]]) -> XmlAnswer:
    handles = await _handles(call)
    if not handles:
        raise AliyunError("MissingReceiptHandle")
    failed = (await settle(handles)).failed
    return failures(failed) if failed else XmlAnswer(204)


async def _handles(call: AliyunCall) -> list[str]:
    """Read the handles from the body, without repeats."""
    if not call.content:
        return []
    leaves = await leaves_of(call.content, "ReceiptHandles", ("ReceiptHandle",), call.turns)
    return list(dict.fromkeys(text for _, leaf in leaves if (text := leaf.strip())))


def _wishes(call: AliyunCall) -> tuple[str, int, float, TagFilter]:
    """Read a receive request: group, number of messages, real seconds to wait, tags.

    The wait is limited to the setting ``max_long_poll``. Raises InvalidArgumentError.
    """
    max_messages = call.whole("numOfMessages", 1, MAX_MESSAGES)
    wait_us = call.whole("waitseconds", 0, MAX_WAIT_S, default=0) * US_PER_S
    wait_s = min(wait_us, call.settings.max_long_poll_us) / US_PER_S
    return call.group, max_messages, wait_s, TagFilter.parse(call.parameters.get("tag"))


def _messages(call: AliyunCall, taken: Sequence[InFlightMessage]) -> XmlAnswer:
    if not taken:
        raise AliyunError("MessageNotExist")
    limit = call.broker.sender.intake.max_message_bytes
    return XmlAnswer(200, document("Messages", NAMESPACE, "".join([_message(one, limit) for one in taken])))


def _message(taken: InFlightMessage, limit: int) -> str:
    """Write a message, its body decompressed up to ``limit`` bytes. Times are emulated milliseconds."""
    message = taken.message
    properties = decode_properties(message.properties)
    body = representable(body_of(message, limit).content.decode(errors="replace"))
    return nested(
        "Message",
        [
            ("MessageId", message.unique_key),
            ("MessageBodyMD5", md5_of(body.encode())),
            ("MessageBody", body),
            ("ReceiptHandle", taken.handle),
            ("PublishTime", message.born_us // US_PER_MS),
            ("FirstConsumeTime", taken.first_taken_us // US_PER_MS),
            ("NextConsumeTime", taken.visible_us // US_PER_MS),
            ("ConsumedTimes", taken.times),
            ("MessageTag", properties.get(TAGS, "")),
            ("Properties", property_string.render(properties)),
        ],
    )
