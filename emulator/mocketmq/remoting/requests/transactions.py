"""Commits half messages or rolls them back (docs/protocol/remoting.md §9)."""

from typing import Final

from mocketmq.remoting.access_rule import publishes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32, RequestHeader


class EndTransactionHeader(RequestHeader):
    """Names the half message by its queue offset and its log offset."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None


_DECISIONS: Final = {0: None, 8: True, 12: False}
"""Transaction bits of sysFlag, and whether they mean a commit; None if the producer is undecided."""


TRANSACTIONS: Final = RequestFamily("Transactions")


@Request(TRANSACTIONS, RequestCode.END_TRANSACTION, access=publishes("topic"))
async def end(call: RemotingCall[EndTransactionHeader]) -> Response:
    """End a transaction as its producer has decided, with or without a check back."""
    header = call.header
    if header.commit_or_rollback not in _DECISIONS:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    await call.broker.half_messages.end(
        header.commit_log_offset,
        header.tran_state_table_offset,
        header.producer_group,
        commit=_DECISIONS[header.commit_or_rollback],
    )
    return Response()
