"""Creates a relay's own topics in Kafka, and checks whether real topics exist."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.relay.partition import RelayError, RelayTopics, RetryableError

log = logging.getLogger(__name__)

_LARGEST_BYTES: Final = 32 << 20
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",  # low, because a takeover reads all that is not compacted
    "segment.ms": str(3_600_000),
    "max.message.bytes": str(_LARGEST_BYTES),  # a message is slightly larger here than in the delay topic
}
_REFUSED: Final = {"max.message.bytes": str(_LARGEST_BYTES)}
_FRESH_US: Final = 30 * US_PER_S
_NEW_TOPIC_S: Final = 0.5  # real seconds until every broker knows a new topic
_INVALID_TOPIC, _FORBIDDEN, _UNKNOWN_TOPIC = 17, 29, 3


class TopicState(Enum):
    """Whether messages can be sent to a real topic. If not, the value is the reason."""

    READY = ""
    MISSING = "does not exist"
    FORBIDDEN = "is not writable for the relay"
    LEADERLESS = "has a partition without a leader"


class KafkaTopics:
    """A relay's topics. ``partitions`` of the delay topic is set by :meth:`open`."""

    def __init__(self, names: RelayTopics, options: Mapping[str, Any]) -> None:
        self.names = names
        self.partitions = 0
        self._admin = AIOKafkaAdminClient(**options)
        self._ready_until_us: dict[str, int] = {}

    async def open(self) -> None:
        """Create the relay's missing topics. Raises RelayError."""
        async with _telling():
            await self._admin.start()
        await self.prepare()

    async def prepare(self) -> None:
        """Create the missing topics, with as many partitions as the delay topic.

        Raises RelayError.
        """
        async with _telling():
            there = set(await self._admin.list_topics())
            if self.names.delayed not in there:
                raise RelayError(
                    f"topic {self.names.delayed} does not exist; create it, and restart the relay"
                )
            counts = await self._counts({self.names.delayed, self.names.pending} & there)
            self.partitions, replicas = counts[self.names.delayed]
            for name, config in ((self.names.pending, _COMPACTED), (self.names.refused, _REFUSED)):
                if name not in there:
                    await self._make(name, replicas, config)
            if self.names.pending in there:
                await self._check_pending(counts[self.names.pending][0])

    async def _counts(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return each topic's numbers of partitions and of replicas."""
        found = {}
        for topic in await self._admin.describe_topics([*names]):
            if topic["error_code"]:
                raise for_code(topic["error_code"])(topic["topic"])
            found[topic["topic"]] = len(topic["partitions"]), len(topic["partitions"][0]["replicas"])
        return found

    async def _make(self, name: str, replicas: int, config: dict[str, str]) -> None:
        new = NewTopic(name, self.partitions, replicas, topic_configs=config)
        answer = await self._admin.create_topics([new])
        for _, code, *said in answer.topic_errors:
            error = for_code(code)
            if code and error is not TopicAlreadyExistsError:
                settings = ", ".join(f"{key}={value}" for key, value in config.items())
                raise RelayError(
                    f"the topic {name} cannot be created ({said[0] or error.__name__}); create it with"
                    f" {self.partitions} partitions and {settings}"
                )

    async def _check_pending(self, count: int) -> None:
        name = self.names.pending
        if count < self.partitions:
            await self._admin.create_partitions({name: NewPartitions(self.partitions)})
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": ""})
        for answer in await self._admin.describe_configs([resource]):
            for code, _, _, _, entries in answer.resources:
                policies = [entry[1] for entry in entries]
                if code:
                    log.warning(
                        "the settings of the topic %s cannot be read: %s", name, for_code(code).__name__
                    )
                elif policies != ["compact"]:
                    raise RelayError(
                        f"the topic {name} has cleanup.policy={','.join(policies)}, by which Kafka would"
                        " remove pending messages; needed: cleanup.policy=compact"
                    )

    async def states(self, names: Collection[str]) -> dict[str, TopicState]:
        """Return the state of each of these topics. Raises RetryableError."""
        now_us = steady_us()
        found = {name: TopicState.READY for name in names if self._ready_until_us.get(name, 0) > now_us}
        unknown = [name for name in names if name not in found]
        if unknown:
            found |= await self._described(unknown)
        if missing := [name for name in unknown if found[name] is TopicState.MISSING]:
            await asyncio.sleep(_NEW_TOPIC_S)
            found |= await self._described(missing)
        return found

    async def _described(self, names: Sequence[str]) -> dict[str, TopicState]:
        try:
            described = await self._admin.describe_topics([*names])
        except KafkaError as error:
            raise RetryableError(f"Kafka did not list its topics ({said(error)})") from error
        found = {topic["topic"]: _state(topic) for topic in described}
        until_us = steady_us() + _FRESH_US
        ready = (name for name, state in found.items() if state is TopicState.READY)
        self._ready_until_us |= dict.fromkeys(ready, until_us)
        return found

    def doubt(self) -> None:
        """Forget the cached states of topics."""
        self._ready_until_us.clear()

    async def close(self) -> None:
        await self._admin.close()


def said(error: KafkaError) -> str:
    """Return the message of an error; many of the client's errors have only a name."""
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name


def _state(topic: Mapping[str, Any]) -> TopicState:
    code = topic["error_code"]
    if code in (_UNKNOWN_TOPIC, _INVALID_TOPIC):
        return TopicState.MISSING
    if code == _FORBIDDEN:
        return TopicState.FORBIDDEN
    if code or any(partition["leader"] < 0 for partition in topic["partitions"]):
        return TopicState.LEADERLESS
    return TopicState.READY


@asynccontextmanager
async def _telling() -> AsyncIterator[None]:
    """Convert the client's errors to RelayError."""
    try:
        yield
    except KafkaError as error:
        raise RelayError(f"Kafka cannot be used ({said(error)})") from error
