"""EndTransaction (EndTransactionActivity.java, 5.3.3)."""

from typing import Any

from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.names import topic_of

_COMMIT, _ROLLBACK = 1, 2

_Answer = message_class("EndTransactionResponse")


async def end_transaction(call: Call) -> Any:
    """Commit a half message or roll it back. Without a decision the producer is asked again later."""
    topic = topic_of(call.request.topic)
    transaction_id, resolution = call.request.transaction_id, call.request.resolution
    if not transaction_id.strip():
        raise GrpcError(Code.INVALID_TRANSACTION_ID, "transaction_id is blank")
    halves = call.broker.half_messages
    if resolution in (_COMMIT, _ROLLBACK):
        await halves.decide(transaction_id, commit=resolution == _COMMIT, topic=topic)
    else:
        await halves.leave_undecided(transaction_id, topic=topic)
    return _Answer()
