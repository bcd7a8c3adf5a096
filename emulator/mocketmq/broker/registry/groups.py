"""The configured consumer groups: find, create, change and delete them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mocketmq.broker.registry.name_server import DataVersion
from mocketmq.errors import GroupNotFoundError, InvalidArgumentError, NoPermissionError, RefusedError
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP, check_group_name, is_system_group
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

MAX_RETRIES = 16
MAX_RETRIES_LIMIT = 1_000
MAX_RETRY_QUEUES = 64
PRIORITY_FACTOR = "priority.factor"
LITE_BIND_TOPIC = "lite.bind.topic"
LITE_SUB_MODEL = "lite.sub.model"
LITE_RESET_WHEN_EVICTED = "lite.sub.reset.offset.exclusive"
LITE_RESET_WHEN_UNSUBSCRIBED = "lite.sub.reset.offset.unsubscribe"
LITE_QUOTA = "lite.sub.client.quota"
LITE_WILDCARD = "lite.sub.wildcard"
"""Attributes of groups that consume lite topics (SubscriptionGroupAttributes and SubscriptionGroupConfig,
5.5.0)."""
USUAL_LITE_QUOTA = 2_000
MAX_LITE_QUOTA = 100_000
ALWAYS = 100
"""The usual ``priority.factor``: each receive gets the highest priority first."""

_SAVE_GROUP = (
    "INSERT INTO groups VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
    " max_retries = excluded.max_retries, retry_queues = excluded.retry_queues, config = excluded.config"
)
_ADD_GROUP = "INSERT INTO groups VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
_DELETE_GROUP = "DELETE FROM groups WHERE name = ?"


_Ms = Annotated[int, Meta(ge=0, le=365 * 86_400_000)]


class ExponentialPolicy(msgspec.Struct, frozen=True):
    """A delay that grows from ``initial`` to ``max`` with each attempt."""

    initial: _Ms = 5_000
    max: _Ms = 7_200_000
    multiplier: Annotated[int, Meta(ge=1, le=1_000)] = 2


class CustomizedPolicy(msgspec.Struct, frozen=True):
    """A list of delays."""

    next: Annotated[list[_Ms], Meta(min_length=1, max_length=1_000)] | None = None


class RetryPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """A group's retry policy, which clients over gRPC follow (GroupRetryPolicy.java, 5.3.3). Times are in ms.

    ``type`` selects one of the two policies. The other one is not used.
    """

    type: Literal["CUSTOMIZED", "EXPONENTIAL"] = "CUSTOMIZED"
    exponential_retry_policy: ExponentialPolicy | None = None
    customized_retry_policy: CustomizedPolicy | None = None

    @property
    def exponential(self) -> ExponentialPolicy | None:
        """The exponential policy, if ``type`` selects it."""
        return (self.exponential_retry_policy or ExponentialPolicy()) if self.type == "EXPONENTIAL" else None

    @property
    def delays_ms(self) -> list[int] | None:
        """The retry delays listed in a customized policy; None if it lists none.

        A group without a list, and without an exponential policy, uses the delay levels.
        """
        return self.customized_retry_policy.next if self.customized_retry_policy else None


def retry_policy_of(given: dict[str, Any] | None) -> RetryPolicy:
    """The policy in a group's configuration. Raises InvalidArgumentError."""
    try:
        return msgspec.convert(given or {}, RetryPolicy)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(
            "groupRetryPolicy", given, "a GroupRetryPolicy", f"groupRetryPolicy: {error}"
        ) from None


class GroupConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The other fields of RocketMQ's SubscriptionGroupConfig, with its names (4.9.8; the rest 5.3.3).

    The first three fields and the attributes have effects, except ``lite.sub.client.max.event.cnt``. So do
    ``consume_message_orderly`` and ``group_retry_policy`` over gRPC, and ``broker_id`` if brokers have
    slaves. The other fields are only stored, for clients that read them.
    """

    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = {}
    group_retry_policy: dict[str, Any] | None = None
    subscription_data_set: list[Any] | None = None

    @property
    def priority_factor(self) -> int:
        """How many of a hundred receives from a topic of type ``priority`` get the highest priority first."""
        return int(self.attributes.get(PRIORITY_FACTOR, ALWAYS))

    @property
    def lite_parent(self) -> str | None:
        """The topic whose lite topics the group consumes; None for a group that consumes whole topics."""
        return self.attributes.get(LITE_BIND_TOPIC)

    @property
    def lite_quota(self) -> int:
        """How many lite topics each of the group's clients may subscribe to."""
        return int(self.attributes.get(LITE_QUOTA, USUAL_LITE_QUOTA))

    @property
    def is_lite_exclusive(self) -> bool:
        """Whether only one client of the group at a time may subscribe to a lite topic."""
        return self.attributes.get(LITE_SUB_MODEL) == "Exclusive"

    @property
    def is_lite_wildcard(self) -> bool:
        """Whether the group's clients get the messages of all lite topics."""
        return LITE_WILDCARD in self.attributes

    def with_lite_topics(
        self,
        *,
        parent: str | None = None,
        is_exclusive: bool | None = None,
        is_wildcard: bool | None = None,
        quota: int | None = None,
    ) -> "GroupConfig":
        """Return this configuration with other settings for lite topics. None keeps a setting."""
        after = dict(self.attributes)
        if parent is not None:
            after[LITE_BIND_TOPIC] = parent
        if is_exclusive is not None:
            after[LITE_SUB_MODEL] = "Exclusive" if is_exclusive else "Shared"
        if is_wildcard is not None:
            after.pop(LITE_WILDCARD, None)
            after |= {LITE_WILDCARD: "true"} if is_wildcard else {}
        if quota is not None:
            after[LITE_QUOTA] = str(quota)
        return msgspec.structs.replace(self, attributes=after)


USUAL = GroupConfig()
_write, _read = msgspec.json.Encoder().encode, msgspec.json.Decoder(GroupConfig).decode


class Group:
    """A configured consumer group: its name, retries and retry queues."""

    def __init__(self, name: str, max_retries: int, retry_queues: int, config: GroupConfig = USUAL) -> None:
        self.name = name
        self.max_retries = max_retries
        self.retry_queues = retry_queues
        self.config = config

    def check_may_broadcast(self) -> None:
        """Raise NoPermissionError, in RocketMQ's words, unless the group may broadcast."""
        if not self.config.consume_broadcast_enable:
            raise NoPermissionError(f"the consumer group[{self.name}] can not consume by broadcast way")


class Groups:
    """Every consumer group.

    Reads come from memory, and see a change once it is committed. A change is answered once it is durable.
    """

    def __init__(self, store: Store, *, auto_create: bool, on_deleted: Callable[[str], None]) -> None:
        self.auto_create = auto_create
        self.version = DataVersion()
        self._database = store.database
        self._writer = store.writer
        self._on_deleted = on_deleted
        self._groups: dict[str, Group] = {}

    async def load(self) -> None:
        for name, max_retries, retry_queues, config in await self._database.rows("SELECT * FROM groups"):
            self._groups[name] = Group(name, max_retries, retry_queues, _read(config))

    async def reload(self) -> None:
        """Read everything again from a restored store. Groups that still exist stay the same objects."""
        before = self._groups
        self._groups = {}
        await self.load()
        for name, group in before.items():
            read = self._groups.get(name)
            if read is None:
                self._on_deleted(name)
            else:
                group.max_retries, group.retry_queues = read.max_retries, read.retry_queues
                group.config = read.config
                self._groups[name] = group
        self.version.changed(self._writer.now_us())

    def __iter__(self) -> Iterator[Group]:
        return iter(sorted(self._groups.values(), key=lambda group: group.name))

    def find_group(self, name: str) -> Group | None:
        return self._groups.get(name)

    def is_in_order(self, name: str) -> bool:
        """Whether the group exists and consumes in order."""
        group = self.find_group(name)
        return group is not None and group.config.consume_message_orderly

    def get(self, name: str) -> Group:
        """The group. Raises GroupNotFoundError."""
        group = self._groups.get(name)
        if group is None:
            raise GroupNotFoundError(f"subscription group not exist, {name}")
        return group

    def of_client(self, name: str) -> Group:
        """The group for a client that settles messages. Raises GroupNotFoundError, NoPermissionError."""
        _check_is_for_clients(name)
        return self.get(name)

    async def for_use(self, name: str, max_retries: int = MAX_RETRIES) -> Group:
        """The group for a client that consumes, created on first use if the settings allow it.

        RocketMQ's own groups are always created.

        ``max_retries`` applies to a new group. Raises InvalidArgumentError, GroupNotFoundError, and
        NoPermissionError for the broker's own groups.
        """
        return self._usable(name) or await self.put(name, max_retries, 1, replace=False)

    def may_be_used(self, name: str) -> bool:
        """Whether :meth:`for_use` would succeed."""
        try:
            self._usable(name)
        except RefusedError:
            return False
        return True

    def _usable(self, name: str) -> Group | None:
        """The group, or None if it may be created. Raises the errors of :meth:`for_use`."""
        _check_is_for_clients(name)
        group = self._groups.get(name)
        if group is None:
            check_group_name(name)
            if not (self.auto_create or is_system_group(name)):
                return self.get(name)
        return group

    async def for_consuming(self, name: str) -> Group:
        """Like ``for_use``. Also raises NoPermissionError, in RocketMQ's words, if consuming is disabled."""
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
        """Create or change the group. Without ``replace``, an existing group is left unchanged.

        Without ``config``, an existing group keeps its configuration. Raises InvalidArgumentError for an
        invalid name or number.
        """
        self.check(name, max_retries, retry_queues)
        made: list[Group] = []  # the group may be deleted again before put() returns

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
            # If one transaction runs both statements, the replacing one wins, in whichever order they run.
            batch.execute(_SAVE_GROUP if replace else _ADD_GROUP, row)
            batch.on_commit(partial(apply, wanted, batch.now_us))

        await self._writer.commit(work)
        return made[0]

    def check(self, name: str, max_retries: int, retry_queues: int) -> None:
        """Raise InvalidArgumentError for an invalid name or number."""
        check_group_name(name)
        if not 0 <= max_retries <= MAX_RETRIES_LIMIT:
            raise InvalidArgumentError("max_retries", max_retries, f"0 to {MAX_RETRIES_LIMIT}")
        if not 1 <= retry_queues <= MAX_RETRY_QUEUES:
            raise InvalidArgumentError("retry_queues", retry_queues, f"1 to {MAX_RETRY_QUEUES}")

    def delete(self, batch: Batch, name: str) -> None:
        """Delete the group in this transaction. The caller deletes its offsets and receipts."""

        def apply() -> None:
            del self._groups[name]
            self._on_deleted(name)
            self.version.changed(batch.now_us)

        batch.execute(_DELETE_GROUP, (name,))
        batch.on_commit(apply)

    def tells_changes(self, name: str) -> bool:
        """Whether the group's members are notified when others join or leave."""
        group = self._groups.get(name)
        return group is None or group.config.notify_consumer_ids_changed_enable


def _check_is_for_clients(name: str) -> None:
    if name in (HALF_GROUP, CHECKED_HALF_GROUP):
        raise NoPermissionError(f"group[{name}] belongs to the broker, which uses it for half messages")
