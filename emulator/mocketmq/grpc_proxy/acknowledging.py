"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue.

The broker defines the receipt handles (``broker/consuming/handles.py``). A handle is valid until its message
becomes visible again or its client changes the invisible time. The change creates a new handle, except in a
group that consumes in order (ChangeInvisibleTimeProcessor.java, 5.3.3).
"""

from typing import Any, Final

from mocketmq.clock import US_PER_MS
from mocketmq.errors import BrokerDownError, EmulatorError, ReceiptError
from mocketmq.grpc_proxy.call import Call, group_of, topic_of
from mocketmq.grpc_proxy.codes import Code, GrpcError, code_of, common_code, name_of, set_status
from mocketmq.grpc_proxy.messages import message_class, us_of
from mocketmq.invisible_time import LONGEST_US

_DEAD: Final = -1

_AckAnswer = message_class("AckMessageResponse")
_ChangeAnswer = message_class("ChangeInvisibleDurationResponse")
_ForwardAnswer = message_class("ForwardMessageToDeadLetterQueueResponse")


def check_invisible(invisible_us: int, least_us: int) -> None:
    """Raise GrpcError, in the proxy's words (GrpcValidator.java), for an invisible time out of bounds."""
    for is_wrong, bound in (
        (invisible_us < least_us, f"small. min is {least_us // US_PER_MS}"),
        (invisible_us > LONGEST_US, f"large. max is {LONGEST_US // US_PER_MS}"),
    ):
        if is_wrong:
            raise GrpcError(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"the invisibleTime is too {bound}; invisible_duration is {invisible_us / US_PER_MS:.12g} ms",
            )


async def acknowledge(call: Call) -> Any:
    """Ack messages; the response has an entry for each, in the same order."""
    group = _group(call)
    handles = [entry.receipt_handle for entry in call.request.entries]
    if not handles:
        raise GrpcError(Code.INTERNAL_SERVER_ERROR, "the request contains no entries")
    failed: dict[str, EmulatorError] = {}
    for handle in dict.fromkeys(handles):
        try:
            call.broker.settler.check_broker(group, handle)
        except (BrokerDownError, ReceiptError) as refusal:
            failed[handle] = refusal.with_traceback(None)  # which refers to ``failed``
    handles = [handle for handle in dict.fromkeys(handles) if handle not in failed]
    settled = await call.broker.settler.acknowledge(group, handles)
    call.broker.renewals.drop(group, handles)
    failed |= settled.failed
    answer, codes = _AckAnswer(), []
    for given in call.request.entries:
        entry = answer.entries.add(message_id=given.message_id, receipt_handle=given.receipt_handle)
        error = failed.get(given.receipt_handle)
        set_status(entry) if error is None else set_status(entry, code_of(error), str(error))
        codes.append(entry.status.code)
    common = common_code(codes)
    return set_status(answer, common, name_of(common))


async def change_invisible_duration(call: Call) -> Any:
    """Set when a message becomes visible again, either for a retry or to give its consumer more time.

    With ``suspend``, which only lite topics support, all messages that the same receive returned from the
    lite topic are postponed together, and the receive does not count as an attempt.
    """
    group, handle = _group(call), call.request.receipt_handle
    invisible_us = us_of(call.request.invisible_duration)
    answer = set_status(_ChangeAnswer(receipt_handle=handle))  # SDKs keep this handle even after an error
    try:
        check_invisible(invisible_us, 0)
    except GrpcError as error:
        return set_status(answer, error.code, str(error))
    is_in_order = call.broker.registry.groups.is_in_order(group)
    try:
        call.broker.settler.check_broker(group, handle)
        if call.request.suspend:
            await call.broker.settler.suspend(group, handle, invisible_us)
        else:
            answer.receipt_handle = await call.broker.settler.change(
                group, handle, invisible_us, same_handle=is_in_order
            )
    except (BrokerDownError, ReceiptError) as error:
        set_status(answer, code_of(error), str(error))
    call.broker.renewals.drop(group, [handle])
    return answer


async def forward_to_dead_letters(call: Call) -> Any:
    """Make a message a dead letter at once, after its FIFO consumer has retried it locally."""
    group, handle = _group(call), call.request.receipt_handle
    call.broker.settler.check_broker(group, handle)
    settled = await call.broker.settler.give_back(group, [handle], _DEAD)
    call.broker.renewals.drop(group, [handle])
    answer = set_status(_ForwardAnswer())
    for _, error in settled.failed:
        set_status(answer, code_of(error), str(error))
    return answer


def _group(call: Call) -> str:
    topic_of(call.request.topic)
    return group_of(call.request.group)
