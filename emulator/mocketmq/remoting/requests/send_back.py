"""Retries: 36 (sheet 6.2)."""

from typing import Final, NamedTuple

from mocketmq.errors import MessageNotFoundError
from mocketmq.remoting.access_rule import consumes
from mocketmq.remoting.request import Call, Family, Reply, Request
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.header import Int32


class SendBack(NamedTuple):
    """2.7; ``offset`` is the message's commit offset."""

    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


KNOWS_MAX_RETRIES: Final = 121
"""Clients from this version on (V3_4_9) say how often a message is retried."""


async def send_back(call: Call[SendBack]) -> Reply:
    """A consumer could not consume a message: it comes again later, or is a dead letter."""
    header = call.header
    says = call.command.version >= KNOWS_MAX_RETRIES
    try:
        await call.broker.pull.give_back(
            header.group, header.offset, header.delay_level, header.max_reconsume_times if says else None
        )
    except MessageNotFoundError as error:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Reply()


SEND_BACK: Final = Family(
    "Retries",
    [
        Request(RequestCode.CONSUMER_SEND_MSG_BACK, SendBack, send_back, access=consumes(group="group")),
    ],
)
