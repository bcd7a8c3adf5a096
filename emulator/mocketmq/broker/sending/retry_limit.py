"""Decides when a retry that a client sends itself becomes a dead letter (SendMessageProcessor.java)."""

from collections.abc import Callable

from mocketmq.broker.registry.groups import Group
from mocketmq.message.message import Message
from mocketmq.rocketmq_versions import V5_0_0


class RetryLimit:
    """The limit as of ``server_version``; ``has_locks`` tells whether a group has locked queues.

    Clients that consume in order lock their queues, and send a message only after its last attempt, with the
    number of its retries. Other clients count the next attempt, too, which RocketMQ 4 did not expect.
    """

    def __init__(self, has_locks: Callable[[str], bool], server_version: int) -> None:
        self._has_locks = has_locks
        self._is_4 = server_version < V5_0_0

    def is_exceeded(self, group: Group, message: Message) -> bool:
        """Whether this retry of the group is a dead letter."""
        times, most = message.reconsume_times, message.max_reconsume_times
        if most is None:
            most = group.max_retries
        return times >= most if self._is_4 else times > most or self._has_locks(group.name)
