"""Recalls delayed messages by their handles (``broker/inspection/recalls.py``)."""

from typing import Final

from mocketmq.errors import EmulatorError
from mocketmq.message.names import REGION
from mocketmq.remoting.access_rule import publishes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RequestCode, code_of
from mocketmq.remoting.wire.header import RequestHeader

_EXT: Final = {"MSG_REGION": REGION}


class RecallMessageHeader(RequestHeader):
    """``recall_handle`` comes from the response to the send."""

    topic: str
    recall_handle: str


RECALL: Final = RequestFamily("Recalling")


@Request(RECALL, RequestCode.RECALL_MESSAGE, access=publishes("topic"))
async def recall(call: RemotingCall[RecallMessageHeader]) -> Response:
    """Cancel a delayed message, and return when the cancellation is durable."""
    header = call.header
    try:
        recalled = await call.broker.recalls.recall(
            header.topic, header.recall_handle, is_strict=call.settings.strict_recall
        )
    except EmulatorError as error:
        return Response(_EXT, code=code_of(error), remark=str(error))
    return Response({**_EXT, "msgId": recalled})
