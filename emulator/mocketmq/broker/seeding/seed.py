"""A seed: a message with a past, and how far groups have consumed it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mocketmq.message.message import Message


class Seed(NamedTuple):
    """A message, and what has happened to it. Instants in emulated microseconds.

    A relative delay of the message counts from ``sent_us``. The message was acknowledged by the groups in
    ``consumed_by``. It failed at the groups in ``failed`` as often as given there, and waits for its next
    attempt. It is a dead letter of the groups in ``dead``, after as many attempts.
    """

    message: Message
    sent_us: int | None = None  # None: now
    due_us: int | None = None  # its absolute due time on the broker's clock, if it has one
    ordering_key: str | None = None  # chooses the queue, if the message asks for none
    consumed_by: Sequence[str] = ()
    failed: Mapping[str, int] = {}
    dead: Mapping[str, int] = {}


class Lag(NamedTuple):
    """The group has acknowledged all seeded messages of the topic but the newest ``messages``."""

    group: str
    topic: str
    messages: int


class Planted(NamedTuple):
    """How many messages a seed has stored, and their ids in the order of the seed."""

    message_ids: Sequence[str]
    pending: int  # messages that wait for their due time
    retries: int  # copies that wait for, or have reached, the next attempt of a group
    dead_letters: int
