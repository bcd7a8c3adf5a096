"""Delivers replies to the clients that sent request messages (ReplyMessageProcessor.java, 4.9.8)."""

from collections.abc import Iterator
from typing import Final

from mocketmq.access.needs import Need, to_produce
from mocketmq.errors import EmulatorError
from mocketmq.message.names import REPLY_TOPIC
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests.send_header import V2_NAMES, SendMessageHeader
from mocketmq.remoting.requests.sending import EXT, message_of, refusal, response_to
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_properties


def _replies(topic: str) -> AccessRule:
    """Make a rule that allows every access key to reply.

    Storing the reply requires permission to publish to its topic, unless the sender is a user, as in 5.5.0.
    """

    def needs(command: Command) -> Iterator[Need]:
        name = command.ext.get(topic)
        return to_produce(name, actions=None) if name and name != REPLY_TOPIC else iter(())

    return AccessRule(needs)


REPLIES: Final = RequestFamily("Request and reply")


@Request(REPLIES, RequestCode.SEND_REPLY_MESSAGE, access=_replies("topic"))
@Request(REPLIES, RequestCode.SEND_REPLY_MESSAGE_V2, access=_replies("b"), names=V2_NAMES)
async def send_reply(call: RemotingCall[SendMessageHeader]) -> Response:
    """Store a reply, push it to the waiting client, and return when both are done."""
    header = call.header
    properties = decode_properties(header.properties)
    try:
        message = message_of(call, call.command.body, properties.copy(), header.flag)
        message.properties = properties  # exactly as the sender wrote them
        sent = await call.broker.replies.send(message, header.producer_group, is_unit_mode=header.unit_mode)
    except EmulatorError as error:
        return refusal(call, error)
    if sent is not None:
        return response_to(call, [sent])
    queue_id = call.channel.share.queue_id(header.topic, max(header.queue_id, 0))
    return Response({**EXT, "msgId": "0", "queueId": str(queue_id), "queueOffset": "0"})
