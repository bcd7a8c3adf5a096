"""Request modes: whether a group pulls or pops a topic's messages, and the queues assigned to each client.

Codes 400 and 401 of 5.3.3: docs/protocol/remoting.md §2.5.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mocketmq.broker.registry.groups import Groups
from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import InvalidArgumentError, NoPermissionError
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

PULL, POP = "PULL", "POP"
MODES: Final = (PULL, POP)
ALL_QUEUES: Final = -1
"""Queue id that means all queues of a topic, for clients that pop."""

MAX_SHARED: Final = 1_024

_SAVE = (
    "INSERT INTO request_modes VALUES (?, ?, ?, ?) ON CONFLICT (topic, group_name) DO UPDATE SET"
    " mode = excluded.mode, share_queues = excluded.share_queues"
)
_DELETE = "DELETE FROM request_modes WHERE topic = ? AND group_name = ?"

Strategy = Callable[[int, int, int], Sequence[int]]
"""``strategy(queues, members, index)`` returns the ids of the queues for the member at ``index``."""


class RequestMode(NamedTuple):
    """A group's request mode for a topic.

    A popping client also gets the queues of the next ``share_queues`` members. 0 means all queues.
    """

    topic: str
    group: str
    mode: str = PULL
    share_queues: int = 0


class RequestModes:
    """All request modes. They outlive their topics and groups, as in RocketMQ, until :meth:`forget`.

    Reads come from memory, and see a change once it is committed. A change is answered once it is durable.
    """

    def __init__(self, store: Store, topics: Topics, groups: Groups) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = topics
        self._groups = groups
        self._modes: dict[tuple[str, str], RequestMode] = {}

    async def load(self) -> None:
        for row in await self._database.rows(
            "SELECT topic, group_name, mode, share_queues FROM request_modes"
        ):
            self._modes[row[0], row[1]] = RequestMode(*row)

    async def reload(self) -> None:
        """Read the modes again from a restored store."""
        self._modes.clear()
        await self.load()

    def __iter__(self) -> Iterator[RequestMode]:
        return iter(sorted(self._modes.values()))

    def of(self, topic: str, group: str) -> RequestMode:
        """The mode of a group in a topic; the default is pulling."""
        return self._modes.get((topic, group)) or RequestMode(topic, group)

    async def put(self, mode: RequestMode) -> None:
        """Set a mode.

        Raises InvalidArgumentError, NoPermissionError for a retry topic, which is always pulled,
        TopicNotFoundError, and the errors of :meth:`Groups.for_use`.
        """
        if mode.mode not in MODES:
            raise InvalidArgumentError("mode", mode.mode, " or ".join(MODES))
        if mode.share_queues > MAX_SHARED:
            raise InvalidArgumentError("popShareQueueNum", mode.share_queues, f"up to {MAX_SHARED}")
        if mode.topic.startswith(RETRY_PREFIX):
            raise NoPermissionError("retry topic is not allowed to set mode")
        self._topics.get(mode.topic)
        await self._groups.for_use(mode.group)

        def work(batch: Batch) -> None:
            batch.execute(_SAVE, mode)
            batch.on_commit(partial(self._modes.__setitem__, (mode.topic, mode.group), mode))

        await self._writer.commit(work)

    async def forget(self) -> None:
        """Forget the modes of topics and groups that do not exist."""
        gone = [
            key
            for key in self._modes
            if not (self._topics.find_topic(key[0]) and self._groups.find_group(key[1]))
        ]

        def work(batch: Batch) -> None:
            for key in gone:
                batch.execute(_DELETE, key)
                batch.on_commit(partial(self._modes.__delitem__, key))

        await self._writer.commit(work)


def averagely(queues: int, members: int, index: int) -> Sequence[int]:
    """Assign adjacent queues. The first members may get one more (AllocateMessageQueueAveragely)."""
    each, more = divmod(queues, members)
    first = index * each + min(index, more)
    return range(first, first + each + (index < more))


def by_circle(queues: int, members: int, index: int) -> Sequence[int]:
    """Assign queues round robin (AllocateMessageQueueAveragelyByCircle)."""
    return range(index, queues, members)


STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}


def assigned(
    mode: RequestMode, strategy: Strategy, queues: int, clients: Sequence[str], client: str
) -> Sequence[int]:
    """Return the ids of a client's queues, or :data:`ALL_QUEUES` (QueryAssignmentProcessor)."""
    members, share = sorted(clients), mode.share_queues
    is_popping = mode.mode == POP
    if is_popping and not 0 < share < len(members) - 1:
        return [ALL_QUEUES]
    if client not in members:
        return []
    index = members.index(client)
    if is_popping and len(members) > queues:
        return [index % queues]
    further = range(index, index + 1 + (share if is_popping else 0))
    return [queue for each in further for queue in strategy(queues, len(members), each % len(members))]
