"""Replies to requests: 324 and 325 (sheet 2.7; ReplyMessageProcessor of 4.9.8)."""

from typing import Final

from mocketmq.errors import EmulatorError
from mocketmq.remoting.request import Call, Family, Reply, Request
from mocketmq.remoting.requests.sending import ALWAYS, LETTERS, SendMessage, message_of, refusal, reply_of
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.record import decode_properties


async def send_reply(call: Call[SendMessage]) -> Reply:
    """Answers when the client that asked has taken the reply, and it is stored."""
    header = call.header
    properties = decode_properties(header.properties)
    try:
        message = message_of(call, call.command.body, properties.copy(), header.flag)
        message.properties = properties  # as the replier wrote them
        sent = await call.broker.replies.send(message, header.producer_group, is_unit_mode=header.unit_mode)
    except EmulatorError as error:
        return refusal(call, error)
    if sent is not None:
        return reply_of(call, [sent])
    return Reply({**ALWAYS, "msgId": "0", "queueId": str(max(header.queue_id, 0)), "queueOffset": "0"})


REPLIES: Final = Family(
    "Request and reply",
    {
        RequestCode.SEND_REPLY_MESSAGE: Request(SendMessage, send_reply),
        RequestCode.SEND_REPLY_MESSAGE_V2: Request(SendMessage, send_reply, LETTERS),
    },
)
