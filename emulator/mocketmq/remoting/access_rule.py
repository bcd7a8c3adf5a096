"""Access rules: the permissions that a request needs. Each request is declared with one of them.

They are those of 4.9.8 (PlainAccessValidator.java). Requests that are newer, or were forgotten there, follow
5.3.3 (DefaultAuthorizationContextBuilder.java, ``@RocketMQAction``) as far as these accounts can: changing
topics, groups or settings takes an administrator, reading them takes any key.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mocketmq.access.accounts import Need, to_consume, to_look_up, to_produce
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
            yield from to_look_up(name)

    return AccessRule(needs, is_open=True)


def publishes(topic: str) -> AccessRule:
    """Permission to publish to the topic in this ext field; for a retry topic, to consume as its group."""

    def needs(command: Command) -> Iterator[Need]:
        if name := command.ext.get(topic):
            yield from to_produce(name)

    return AccessRule(needs)


def consumes(topic: str | None = None, group: str | None = None) -> AccessRule:
    """Permission to consume the topic as the group in these ext fields."""

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        return to_consume(ext.get(topic or "") or None, ext.get(group or "") or None)

    return AccessRule(needs)
