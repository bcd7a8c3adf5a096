"""A consumer group, as it is configured."""

from typing import Any

import msgspec

from mocketmq.errors import NoPermissionError


class GroupConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The other fields of upstream's SubscriptionGroupConfig, by its names (4.9.8; the rest 5.3.3).

    The first three have effects; the others are kept for clients that ask.
    """

    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = {}
    group_retry_policy: dict[str, Any] | None = None
    subscription_data_set: list[Any] | None = None


USUAL = GroupConfig()


class Group:
    """A consumer group: what it is called, and how often and where it retries."""

    def __init__(self, name: str, max_retries: int, retry_queues: int, config: GroupConfig = USUAL) -> None:
        self.name = name
        self.max_retries = max_retries
        self.retry_queues = retry_queues
        self.config = config

    def check_may_broadcast(self) -> None:
        """Raise NoPermissionError, in upstream's words, unless the group may broadcast."""
        if not self.config.consume_broadcast_enable:
            raise NoPermissionError(f"the consumer group[{self.name}] can not consume by broadcast way")
