"""The consumer groups: find, create, change and delete them."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from mocketmq.broker.registry.data_version import DataVersion
from mocketmq.broker.registry.group import USUAL, Group, GroupConfig
from mocketmq.errors import GroupNotFoundError, InvalidArgumentError, NoPermissionError, RefusedError
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP, check_group_name, is_system_group
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

MAX_RETRIES = 16
MAX_RETRIES_LIMIT = 1_000
MAX_RETRY_QUEUES = 64

_SAVE_GROUP = (
    "INSERT INTO groups VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
    " max_retries = excluded.max_retries, retry_queues = excluded.retry_queues, config = excluded.config"
)
_ADD_GROUP = "INSERT INTO groups VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
_DELETE_GROUP = "DELETE FROM groups WHERE name = ?"
_write, _read = msgspec.json.Encoder().encode, msgspec.json.Decoder(GroupConfig).decode


class Groups:
    """Every consumer group.

    Reads are from memory; a change is committed before it is seen, and durable when answered.
    """

    def __init__(self, store: Store, *, auto_create: bool, on_deleted: Callable[[str], None]) -> None:
        self.auto_create = auto_create
        self.version = DataVersion()
        self._database = store.database
        self._writer = store.writer
        self._on_deleted = on_deleted
        self._groups: dict[str, Group] = {}

    async def load(self) -> None:
        """Read every group from the store."""
        for name, max_retries, retry_queues, config in await self._database.rows("SELECT * FROM groups"):
            self._groups[name] = Group(name, max_retries, retry_queues, _read(config))

    def __iter__(self) -> Iterator[Group]:
        """All groups, by name."""
        return iter(sorted(self._groups.values(), key=lambda group: group.name))

    def find(self, name: str) -> Group | None:
        """The group, or None."""
        return self._groups.get(name)

    def is_in_order(self, name: str) -> bool:
        """Whether the group consumes in order; one that does not exist does not."""
        group = self.find(name)
        return group is not None and group.config.consume_message_orderly

    def get(self, name: str) -> Group:
        """The group. Raises GroupNotFoundError."""
        group = self._groups.get(name)
        if group is None:
            raise GroupNotFoundError(f"subscription group not exist, {name}")
        return group

    def of_client(self, name: str) -> Group:
        """The group for which a client settles messages. Raises GroupNotFoundError, NoPermissionError."""
        _check_is_for_clients(name)
        return self.get(name)

    async def for_use(self, name: str, max_retries: int = MAX_RETRIES) -> Group:
        """The group for which a client consumes, created on first use if that is on or upstream has it.

        ``max_retries`` is for a new group. Raises InvalidArgumentError, GroupNotFoundError, NoPermissionError
        for the broker's own groups.
        """
        return self._usable(name) or await self.put(name, max_retries, 1, replace=False)

    def may_be_used(self, name: str) -> bool:
        """Whether :meth:`for_use` would not refuse."""
        try:
            self._usable(name)
        except RefusedError:
            return False
        return True

    def _usable(self, name: str) -> Group | None:
        """The group, or None if it may be created. Raises as :meth:`for_use`."""
        _check_is_for_clients(name)
        group = self._groups.get(name)
        if group is None:
            check_group_name(name)
            if not (self.auto_create or is_system_group(name)):
                return self.get(name)
        return group

    async def for_consuming(self, name: str) -> Group:
        """As ``for_use``. NoPermissionError, in upstream's words, also if consuming was switched off."""
        group = await self.for_use(name)
        if not group.config.consume_enable:
            raise NoPermissionError(f"subscription group no permission, {name}")
        return group

    async def put(
        self,
        name: str,
        max_retries: int,
        retry_queues: int,
        config: GroupConfig | None = None,
        *,
        replace: bool = True,
    ) -> Group:
        """Create the group or change it; without ``replace``, an existing group stays as it is.

        Without ``config`` it keeps its own. Raises InvalidArgumentError for a bad name or number.
        """
        self.check(name, max_retries, retry_queues)
        made: list[Group] = []  # on return the group may have been deleted again

        def apply(config: GroupConfig, now_us: int) -> None:
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = Group(name, max_retries, retry_queues, config)
            elif replace:
                group.max_retries, group.retry_queues, group.config = max_retries, retry_queues, config
            made.append(group)
            self.version.changed(now_us)

        def work(batch: Batch) -> None:
            known = self._groups.get(name)
            wanted = config or (known.config if known else USUAL)
            row = (name, max_retries, retry_queues, _write(wanted).decode())
            # In whichever order the two statements run in one transaction, the one that replaces wins.
            batch.execute(_SAVE_GROUP if replace else _ADD_GROUP, row)
            batch.on_commit(partial(apply, wanted, batch.now_us))

        await self._writer.commit(work)
        return made[0]

    def check(self, name: str, max_retries: int, retry_queues: int) -> None:
        """Raise InvalidArgumentError for a bad name or number."""
        check_group_name(name)
        if not 0 <= max_retries <= MAX_RETRIES_LIMIT:
            raise InvalidArgumentError("max_retries", max_retries, f"0 to {MAX_RETRIES_LIMIT}")
        if not 1 <= retry_queues <= MAX_RETRY_QUEUES:
            raise InvalidArgumentError("retry_queues", retry_queues, f"1 to {MAX_RETRY_QUEUES}")

    def delete(self, batch: Batch, name: str) -> None:
        """Delete the group in this transaction. The caller deletes its offsets and takes."""

        def apply() -> None:
            del self._groups[name]
            self._on_deleted(name)
            self.version.changed(batch.now_us)

        batch.execute(_DELETE_GROUP, (name,))
        batch.on_commit(apply)

    def tells_changes(self, name: str) -> bool:
        """Whether the group's members are notified when others come or go."""
        group = self._groups.get(name)
        return group is None or group.config.notify_consumer_ids_changed_enable


def _check_is_for_clients(name: str) -> None:
    if name in (HALF_GROUP, CHECKED_HALF_GROUP):
        raise NoPermissionError(f"group[{name}] is the broker's own: it holds half messages")
