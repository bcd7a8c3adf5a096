"""Access rules: the permissions that a request needs. Each request is declared with one of them.

They are those of 4.9.8 (PlainAccessValidator.java). Requests that are newer, or were forgotten there, follow
5.3.3 (DefaultAuthorizationContextBuilder.java, ``@RocketMQAction``) as far as these accounts can: changing
topics, groups or settings takes an administrator, reading them takes any key.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mocketmq.access.accounts import Need, Permission, group_need, topic_need
from mocketmq.message.names import retry_topic
from mocketmq.remoting.wire.command import Command

Needs = Callable[[Command], Iterator[Need]]


class AccessRule(NamedTuple):
    """``needs`` are the permissions that the key must have; an ``is_open`` request takes not even a key."""

    needs: Needs
    is_admin: bool = False
    is_open: bool = False


def _nothing(_command: Command) -> Iterator[Need]:
    return iter(())


OPEN: Final = AccessRule(_nothing, is_open=True)
"""Anybody, as at upstream's name server."""
KEY: Final = AccessRule(_nothing)
"""Anybody with a key."""
ADMIN: Final = AccessRule(_nothing, is_admin=True)


def looks_for(topic: str) -> AccessRule:
    """Anybody may; permission to publish to this topic, or to consume it, makes the sender authorized."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield topic_need(name, Permission.PUB | Permission.SUB)

    return AccessRule(needs, is_open=True)


def publishes(topic: str) -> AccessRule:
    """Permission to publish to the topic in this ext field; for a retry topic, to consume as its group."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield topic_need(name, Permission.PUB)

    return AccessRule(needs)


def consumes(topic: str | None = None, group: str | None = None) -> AccessRule:
    """Permission to consume the topic as the group in these ext fields."""

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        return to_consume(ext.get(topic) if topic else None, ext.get(group) if group else None)

    return AccessRule(needs)


def to_consume(topic: str | None, group: str | None) -> Iterator[Need]:
    """Permissions to consume the topic as the group; the group's own retry topic needs only the group's."""
    if group:
        yield group_need(group)
    if topic and not (group and topic == retry_topic(group)):
        yield topic_need(topic, Permission.SUB)
