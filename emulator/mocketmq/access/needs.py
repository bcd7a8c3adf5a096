"""What a request needs: permissions of an account in ``plain_acl.yml``, or actions that policies allow.

One list of needs serves both kinds of accounts. Sources: PlainAccessValidator.java, 4.9.8, for permissions;
DefaultAuthorizationContextBuilder.java and ``@RocketMQAction``, 5.5.0, for actions.
"""

from collections.abc import Iterator
from enum import Flag
from typing import Final, Literal, NamedTuple

from mocketmq.message.names import RETRY_PREFIX, retry_topic

Kind = Literal["Cluster", "Topic", "Group"]
"""The type of resource that a need refers to, named as in RocketMQ 5's ResourceType."""


class Permission(Flag):
    """A permission of ``plain_acl.yml`` for a topic or group; ``DENY`` means no permission."""

    DENY = 0
    PUB = 1
    SUB = 2


class Action(Flag):
    """An action that policies allow or deny."""

    PUB = 1
    SUB = 2
    CREATE = 4
    UPDATE = 8
    DELETE = 16
    GET = 32
    LIST = 64


_ANY_USE: Final = Permission.PUB | Permission.SUB


class Need(NamedTuple):
    """Something that an account must be allowed to do with a topic, a group or the cluster.

    If there are several permissions, or several actions, one of them is enough. If ``permission`` is
    ``DENY``, an account of ``plain_acl.yml`` needs no permission. If ``actions`` is None, a user needs no
    policy.
    """

    kind: Kind
    name: str
    permission: Permission
    actions: Action | None


def to_produce(topic: str, actions: Action | None = Action.PUB) -> Iterator[Need]:
    """What sending to the topic requires; for a retry topic, as in RocketMQ, consuming as its group."""
    if topic.startswith(RETRY_PREFIX):
        yield _retry_need(topic, Permission.SUB, actions and Action.SUB)
    else:
        yield Need("Topic", topic, Permission.PUB, actions)


def to_consume(topic: str | None, group: str | None, actions: Action = Action.SUB) -> Iterator[Need]:
    """What consuming the topic as the group requires. Topic or group may be None."""
    if group is not None:
        yield Need("Group", group, Permission.SUB, actions)
    if topic is not None and not (group and topic == retry_topic(group)):
        yield _topic_need(topic, Permission.SUB, actions)


def to_look_up(topic: str, actions: Action) -> Iterator[Need]:
    """What requesting a route requires: permission to send or to consume, or one of the actions."""
    if topic.startswith(RETRY_PREFIX):
        yield _retry_need(topic, Permission.SUB, actions & ~Action.PUB)
    else:
        yield Need("Topic", topic, _ANY_USE, actions)


def to_administer(kind: Kind, name: str, actions: Action) -> Need:
    """What an administrative request requires of a user. Accounts of ``plain_acl.yml`` need nothing here."""
    if kind == "Topic":
        return _topic_need(name, Permission.DENY, actions)
    return Need(kind, name, Permission.DENY, actions)


def _topic_need(topic: str, permission: Permission, actions: Action | None) -> Need:
    if topic.startswith(RETRY_PREFIX):
        return _retry_need(topic, permission, actions)
    return Need("Topic", topic, permission, actions)


def _retry_need(topic: str, permission: Permission, actions: Action | None) -> Need:
    """The need for a retry topic, which refers to the topic's group."""
    return Need("Group", topic.removeprefix(RETRY_PREFIX), permission, actions)
