"""Loads the parts of the registry, and declares the topics and groups of the settings."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from mocketmq.access.access import Access
from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.broker.registry.clients import Clients
from mocketmq.broker.registry.groups import USUAL, Groups
from mocketmq.broker.registry.name_server import NameServer
from mocketmq.broker.registry.request_modes import RequestModes
from mocketmq.broker.registry.statistics import Statistics
from mocketmq.broker.registry.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, Topic, permission_bits
from mocketmq.broker.registry.topic_config import PLAIN, QueuesAtBroker, TopicConfig
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.registry.used_topics import UsedTopics
from mocketmq.broker.registry.users import Users
from mocketmq.message.names import BROKER, CLUSTER, SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.settings import Settings, TopicDeclaration
from mocketmq.store.store import Store

SCHEDULE_QUEUES = 18
"""Minimum number of level queues, even if the level table is shorter, as in RocketMQ."""
CLUSTER_QUEUES = 16
"""Number of queues of the topic named after the cluster (TopicConfigManager.java, 4.9.8)."""


@dataclass(frozen=True)
class Registry:
    """Topics, groups and clients, with their settings and statistics."""

    topics: Topics
    used_topics: UsedTopics
    groups: Groups
    brokers: ClusterBrokers
    clients: Clients
    name_server: NameServer
    request_modes: RequestModes
    users: Users
    statistics: Statistics


async def open_registry(
    store: Store, settings: Settings, statistics: Statistics, levels: int, access: Access | None
) -> Registry:
    """Load the registry with ``levels`` delay levels, and declare the topics and groups of the settings.

    ``access`` gets the users of the store.
    """
    acting_after_us = settings.failover_after_us if settings.failover == "acting-master" else None
    brokers = ClusterBrokers(store.clock, settings.broker_names, settings.slaves, acting_after_us)
    topics = Topics(
        store, brokers, takes_mixed=settings.mixed_message_type, on_deleted=statistics.forget_topic
    )
    await topics.load()
    level_queues = max(SCHEDULE_QUEUES, levels)
    await topics.put(SCHEDULE_TOPIC, level_queues, level_queues, PERM_READ | PERM_WRITE)
    await topics.put(TIMER_TOPIC, 1, 1, PERM_READ | PERM_WRITE)
    for name, queues in ((CLUSTER, CLUSTER_QUEUES), (BROKER, 1)):
        await topics.put(name, queues, queues, PERM_READ | PERM_WRITE | PERM_INHERIT)
    used_topics = UsedTopics(
        topics,
        auto_create=bool(settings.auto_create_topics),
        by_route=settings.auto_create_topics != "send" and settings.profile != "rocketmq4",
        default_queues=settings.topic_queues,
    )
    await used_topics.set_auto_create(is_on=used_topics.auto_create)
    groups = Groups(store, auto_create=settings.auto_create_groups, on_deleted=statistics.forget_group)
    await groups.load()
    await declare(settings, topics, groups)
    name_server = NameServer(store)
    await name_server.load()
    request_modes = RequestModes(store, topics, groups)
    await request_modes.load()
    users = Users(store, access)
    await users.load()
    return Registry(
        topics,
        used_topics,
        groups,
        brokers,
        Clients(groups.tells_changes),
        name_server,
        request_modes,
        users,
        statistics,
    )


async def declare(
    settings: Settings, topics: Topics, groups: Groups, *, anew: bool = False, only_missing: bool = False
) -> None:
    """Create the topics and groups of the settings, or change existing topics and groups accordingly.

    Properties that the settings omit are kept. With ``anew``, they get the defaults of a new broker. With
    ``only_missing``, existing topics and groups are not changed.
    """
    for topic in settings.topics:
        if only_missing and topics.find_topic(topic.name):
            continue
        known_topic = None if anew else topics.find_topic(topic.name)
        await topics.put_by_client(
            topic.name,
            topic.read_queues,
            topic.write_queues,
            permission_bits(topic.perm),
            _config(known_topic, topic),
            _placed(topics.brokers, topic, anew=anew),
        )
    for group in settings.groups:
        if only_missing and groups.find_group(group.name):
            continue
        known = None if anew else groups.find_group(group.name)
        config = known.config if known else USUAL
        if group.fifo:
            config = msgspec.structs.replace(config, consume_message_orderly=True)
        config = config.with_lite_topics(
            parent=group.lite_parent,
            is_exclusive=group.lite_exclusive,
            is_wildcard=group.lite_wildcard,
            quota=group.lite_quota,
        )
        await groups.put(group.name, group.max_retries, group.retry_queues, config)


def _placed(
    brokers: ClusterBrokers, declared: TopicDeclaration, *, anew: bool
) -> Mapping[int, QueuesAtBroker] | None:
    """The queues of a declared topic on each broker, by position; None if it stays on its brokers."""
    if declared.brokers is None and not anew:
        return None
    perm = permission_bits(declared.perm)
    given = dict.fromkeys(brokers.names) if declared.brokers is None else declared.brokers
    return brokers.placed(
        {
            name: QueuesAtBroker(queues or declared.read_queues, queues or declared.write_queues, perm)
            for name, queues in given.items()
        }
    )


def _config(known: Topic | None, declared: TopicDeclaration) -> TopicConfig:
    """Make the configuration of a declared topic."""
    config = known.config if known else PLAIN
    if declared.lite_expiration is not None:
        config = config.with_lite_expiration(declared.lite_expiration)
    return config if declared.type is None else config.typed(declared.type)
