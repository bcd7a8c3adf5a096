"""Takes back messages that a consumer returns for a retry (docs/protocol/remoting.md §6.2)."""

from typing import Final

from mocketmq.errors import MessageNotFoundError
from mocketmq.remoting.access_rule import consumes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.header import Int32, RequestHeader


class SendBackHeader(RequestHeader):
    """``offset`` is the message's log offset."""

    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


SEND_BACK: Final = RequestFamily("Retries")


@Request(SEND_BACK, RequestCode.CONSUMER_SEND_MSG_BACK, access=consumes(group="group"))
async def send_back(call: RemotingCall[SendBackHeader]) -> Response:
    """Redeliver a message later, or make it a dead letter after too many retries."""
    header = call.header
    max_retries = header.max_reconsume_times if call.command.tells_max_retries else None
    try:
        await call.broker.retries.give_back(header.group, header.offset, header.delay_level, max_retries)
    except MessageNotFoundError as error:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Response()
