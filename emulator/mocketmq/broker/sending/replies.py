"""Replies of RocketMQ's request-reply: pushed to the client that sent the request, and stored.

Sources: docs/protocol/remoting.md §2.7; ReplyMessageProcessor.java of 4.9.8.
"""

import logging

from mocketmq.broker.registry.clients import PushedReply
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.sending.queue_choice import queue_for_send
from mocketmq.broker.sending.sender import Sender, SendResult
from mocketmq.clock import US_PER_MS, Clock
from mocketmq.errors import ClientFailedError, ClientOfflineError, EmulatorError, IllegalMessageError
from mocketmq.message.message import Message
from mocketmq.message.message_types import LITE_TOPIC_PROPERTY, PRIORITY_PROPERTY
from mocketmq.message.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, encode_properties

log = logging.getLogger(__name__)


class Replies:
    """Pushes replies, and stores them like other messages."""

    def __init__(self, clock: Clock, registry: Registry, sender: Sender) -> None:
        self._clock = clock
        self._used_topics = registry.used_topics
        self._brokers = registry.brokers
        self._clients = registry.clients
        self._sender = sender

    async def send(self, message: Message, producer_group: str, *, is_unit_mode: bool) -> SendResult | None:
        """Push a reply to the client that sent the request, and store it. Returns None if storing failed.

        Before it does anything, raises the errors of :meth:`UsedTopics.for_send` and ``queue_for_send``, and
        IllegalMessageError for a property without effect. If the push fails, the reply is stored
        nevertheless, and then ClientOfflineError or ClientFailedError is raised.
        """
        for each in (PRIORITY_PROPERTY, LITE_TOPIC_PROPERTY):
            each.check_absent(
                message.properties, "a reply is pushed to its client. Send the reply without it"
            )
        topic = await self._used_topics.for_send(message.topic, message.template)
        queue_for_send(topic, message.queue_id, self._brokers)
        failure = await self._push(message, producer_group, is_unit_mode)
        try:
            sent = await self._sender.send(message)
        except EmulatorError as error:
            log.warning("cannot store a reply: %s", error)
            sent = None
        if failure is not None:
            raise failure
        return sent

    async def _push(self, message: Message, producer_group: str, is_unit_mode: bool) -> EmulatorError | None:
        """Push the reply. Returns the failure in RocketMQ's words, or None."""
        client_id = message.properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            return ClientOfflineError(f"reply message properties[{REPLY_TO_CLIENT}] is null")
        member = self._clients.producer(client_id)
        if member is None:
            return ClientOfflineError(f"push reply message fail, channel of <{client_id}> not found.")
        now_us = self._clock.now_us()
        properties = message.properties | {PUSH_REPLY_TIME: str(now_us // US_PER_MS)}
        try:
            text = encode_properties(properties)
            await member.channel.push_reply(PushedReply(message, text, producer_group, is_unit_mode, now_us))
        except (ClientFailedError, IllegalMessageError) as error:
            log.info("cannot push a reply to %s: %s", client_id, error)
            return ClientFailedError(f"push reply message to {client_id}fail.")
        return None
