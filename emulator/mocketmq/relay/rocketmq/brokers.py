"""Connections to RocketMQ brokers, two for each, so that large pull responses do not delay other requests."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from mocketmq.calling.call import ClusterError
from mocketmq.calling.connection import ClientConnection
from mocketmq.calling.headers import STORED, send_ext
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import IllegalMessageError
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, encode_properties
from mocketmq.relay.judging import UnfitMessageError
from mocketmq.relay.rocketmq.messages import MessageContent
from mocketmq.remoting.wire.batch import BatchEntry, encode_batch
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode

_MOST_PROPERTIES: Final = MAX_PROPERTIES_BYTES - 512
"""Maximum size of a message's properties in a batch, which leaves room for properties that brokers add."""


_LATELY_US: Final = 600 * US_PER_S


@dataclass(frozen=True)
class RemoteBroker:
    """A master broker."""

    name: str
    requests: ClientConnection
    pulls: ClientConnection

    @property
    def address(self) -> str:
        """``host:port`` of the broker."""
        return self.requests.address

    async def send(self, group: str, topic: str, queue_id: int, message: MessageContent) -> int:
        """Send a message and return its queue offset.

        Raises UnfitMessageError if the broker will never accept the message, otherwise ClusterError.
        """
        try:
            ext = send_ext(
                topic,
                group,
                queue_id,
                message.born_ms * US_PER_MS,
                message.properties,
                flag=message.flag,
                sys_flag=message.sys_flag,
            )
        except IllegalMessageError as error:
            raise UnfitMessageError(f"with the relay's properties, {error}") from None
        return await self._stored(ext, message.body)

    async def send_batch(
        self, group: str, topic: str, queue_id: int, messages: Sequence[MessageContent]
    ) -> int:
        """Send messages in one request, which carries only the body, flag and properties of each message.

        Returns the offset of the first message; the others follow. Raises the errors of :meth:`send`.
        """
        try:
            entries = [
                BatchEntry(each.flag, each.body, encode_properties(each.properties, _MOST_PROPERTIES))
                for each in messages
            ]
        except IllegalMessageError as error:
            raise UnfitMessageError(f"with the relay's properties, {error}") from None
        ext = send_ext(topic, group, queue_id, wall_us(), {}, is_batch=True)
        return await self._stored(ext, encode_batch(entries))

    async def _stored(self, ext: dict[str, str], body: bytes) -> int:
        """Send, and return the offset in the response."""
        answer = await self.requests.call(RequestCode.SEND_MESSAGE, ext, body)
        if answer.code == ResponseCode.MESSAGE_ILLEGAL:
            raise UnfitMessageError(f"broker {self.name} refused the message: {answer.reason}")
        if answer.code not in STORED:
            raise ClusterError(
                f"broker {self.name} did not store the message in topic {ext['topic']}: {answer.reason}"
            )
        return int(answer.ext["queueOffset"])

    async def close(self) -> None:
        await asyncio.gather(self.requests.close(), self.pulls.close())


class RemoteBrokers:
    """The brokers that name servers have reported."""

    def __init__(self, connect: Callable[[str], ClientConnection]) -> None:
        self._connect = connect
        self._known: dict[str, RemoteBroker] = {}  # by address
        self._listed_us: dict[str, int] = {}  # when name servers last reported each broker, by name

    def at(self, address: str, name: str) -> RemoteBroker:
        """Return the broker with this name and address, which a name server has just reported."""
        self._listed_us[name] = steady_us()
        found = self._known.get(address)
        if found is None or found.name != name:
            found = RemoteBroker(name, self._connect(address), self._connect(address))
            self._known[address] = found
        return found

    def are_complete(self, names: Collection[str]) -> bool:
        """Whether ``names`` include every recently reported broker."""
        lately_us = steady_us() - _LATELY_US
        return all(name in names for name, listed_us in self._listed_us.items() if listed_us > lately_us)

    async def close(self) -> None:
        await asyncio.gather(*(broker.close() for broker in self._known.values()))
