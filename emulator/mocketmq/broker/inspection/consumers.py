"""Requests to connected consumers: their status, their offsets, and consuming a message directly.

Sources: AdminBrokerProcessor and Broker2Client of 4.9.8; docs/protocol/remoting.md §2.6 and §2.10.
"""

import asyncio

from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.registry.clients import ClientAnswer, Member
from mocketmq.broker.registry.registry import Registry
from mocketmq.errors import ClientFailedError, ClientOfflineError, MessageNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.names import is_hidden_topic
from mocketmq.rocketmq_versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name


class Consumers:
    """Sends requests to consumers. Raises ClientOfflineError, ClientFailedError and ClientTimeoutError."""

    def __init__(self, registry: Registry, histories: Histories) -> None:
        self._clients = registry.clients
        self._histories = histories
        self._topics = registry.topics

    async def running_info(self, group: str, client_id: str, *, with_stacks: bool) -> ClientAnswer:
        """Ask a consumer for its status; ``with_stacks`` includes its threads' stacks, if supported."""
        member = self._find(group, client_id)
        return await member.channel.running_info(group, client_id, with_stacks=with_stacks)

    async def consume(self, group: str, client_id: str, message_id: str) -> ClientAnswer:
        """Make a consumer consume a message now, possibly a second time, and return the consumer's result.

        The group's offsets do not change. If the message has several records, the record with this id is
        used, otherwise the last record. Raises MessageNotFoundError, also while the message is not visible.
        """
        member = self._find(group, client_id)
        message = await self._message(message_id)
        return await member.channel.consume(group, client_id, message, self._topics.queue(message.queue_key))

    async def _message(self, message_id: str) -> StoredMessage:
        records = await self._histories.records(message_id)
        visible = [one for one in records if not is_hidden_topic(self._topics.queue(one.queue_key).topic)]
        if not visible:
            raise MessageNotFoundError(f"the message {message_id} is not visible to consumers yet")
        log_offset = log_offset_of(message_id)
        return next((one for one in visible if one.log_offset == log_offset), visible[-1])

    async def offsets(self, group: str, topic: str, client_id: str = "") -> dict[str, ClientAnswer]:
        """Ask a group's consumers, or one, for their offsets in a topic. Returns the answers by client id.

        Consumers that do not answer are omitted, as in RocketMQ.
        """
        live = self._clients.find_connected_group(group)
        if live is None:
            raise ClientOfflineError(f"No Any Consumer online in the consumer group: [{group}]")
        members = [self._clients.consumer(group, known) for known in dict.fromkeys(live.members.values())]
        asked = [member for member in members if member and client_id in ("", member.client_id)]
        for member in asked:
            if member.version < V3_0_7_SNAPSHOT:
                raise ClientOfflineError(
                    f"the client does not support this feature. version={version_name(member.version)}"
                )
        answers = await asyncio.gather(
            *(member.channel.consumed_offsets(group, topic) for member in asked), return_exceptions=True
        )
        for one in answers:
            if isinstance(one, BaseException) and not isinstance(one, ClientFailedError):
                raise one
        return {
            member.client_id: one
            for member, one in zip(asked, answers, strict=True)
            if not isinstance(one, BaseException)
        }

    def _find(self, group: str, client_id: str) -> Member:
        member = self._clients.consumer(group, client_id)
        if member is None:
            raise ClientOfflineError(f"The Consumer <{group}> <{client_id}> not online")
        if member.version < V3_1_8_SNAPSHOT:
            raise ClientOfflineError(
                f"The Consumer <{client_id}> Version <{version_name(member.version)}> too low to finish,"
                " please upgrade it to V3_1_8_SNAPSHOT"
            )
        return member
