"""Send the messages of a load to a broker of the lab, by RocketMQ's TCP protocol."""

from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from mocketmq.calling.call import ClusterError
from mocketmq.calling.connection import Connection
from mocketmq.calling.headers import send_ext
from mocketmq.clock import wall_us
from mocketmq.errors import EmulatorError
from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import UNIQ_KEY, WAIT
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode

_GROUP: Final = "lab"
_QUEUES: Final = 4


class Producer:
    """One connection, on which any number of sends are under way. ``failed`` counts reasons."""

    def __init__(self, address: str, size: int) -> None:
        self.failed: Counter[str] = Counter()
        self._connection = Connection(address)
        self._body = bytes(size)
        self._sent = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def send(self, topic: str, delay: Mapping[str, str]) -> None:
        """Return when the broker has answered. Raises ClusterError."""
        now_us = wall_us()
        self._sent += 1
        properties = {UNIQ_KEY: new_unique_key(now_us), WAIT: "true", **delay}
        ext = send_ext(topic, _GROUP, self._sent % _QUEUES, now_us, properties)
        answer = await self._connection.call(RequestCode.SEND_MESSAGE, ext, self._body)
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterError(f"the broker refuses a message: {answer.reason}")

    async def try_to_send(self, topic: str, delay: Mapping[str, str]) -> None:
        """Send, and count a failure instead of raising it."""
        try:
            await self.send(topic, delay)
        except EmulatorError as error:
            self.failed[str(error)] += 1
