"""The name server's state: key-value configurations, unwritable brokers, and versions of tables."""

from collections.abc import Mapping
from typing import Final

from mocketmq.broker.registry.topic import PERM_WRITE
from mocketmq.clock import US_PER_MS
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

ORDERS: Final = "ORDER_TOPIC_CONFIG"
"""Namespace of order configurations, which have the number of queues by broker for each ordered topic."""

_SAVE = (
    "INSERT INTO kv_configs VALUES (?, ?, ?)"
    " ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM kv_configs WHERE namespace = ? AND key = ?"


class DataVersion:
    """The number of changes of a table since the start, and the emulated time of the last one in ms.

    Tools detect changes by it (DataVersion.java, 4.9.8).
    """

    def __init__(self) -> None:
        self.counter = 0
        self.timestamp_ms = 0

    def changed(self, now_us: int) -> None:
        """Count a change of the table."""
        self.counter, self.timestamp_ms = self.counter + 1, now_us // US_PER_MS


class NameServer:
    """The state. Reads come from memory. A change is visible once committed, and answered once durable.

    The unwritable brokers and ``shows_orders`` (whether routes show order configurations,
    orderMessageEnable) are only kept until the next start, as in RocketMQ's name server.
    """

    def __init__(self, store: Store) -> None:
        self._unwritable: set[str] = set()  # names of brokers
        self.shows_orders = False
        self._database = store.database
        self._writer = store.writer
        self._configs: dict[str, dict[str, str]] = {}  # by namespace and key

    async def load(self) -> None:
        for namespace, key, value in await self._database.rows("SELECT * FROM kv_configs"):
            self._configs.setdefault(namespace, {})[key] = value

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """All values of a namespace, by key. None if it had none since the start of the process."""
        return self._configs.get(name)

    def value(self, namespace: str, key: str) -> str | None:
        return self._configs.get(namespace, {}).get(key)

    async def put(self, namespace: str, key: str, value: str) -> None:

        def apply() -> None:
            self._configs.setdefault(namespace, {})[key] = value

        def work(batch: Batch) -> None:
            batch.execute(_SAVE, (namespace, key, value))
            batch.on_commit(apply)

        await self._writer.commit(work, alone=True)

    async def delete(self, namespace: str, key: str) -> None:

        def apply() -> None:
            self._configs.get(namespace, {}).pop(key, None)  # RocketMQ, too, keeps an empty namespace

        def work(batch: Batch) -> None:
            batch.execute(_DELETE, (namespace, key))
            batch.on_commit(apply)

        await self._writer.commit(work, alone=True)

    def set_writable(self, broker: str, *, is_writable: bool) -> None:
        """Set whether routes show that the broker accepts messages."""
        (self._unwritable.discard if is_writable else self._unwritable.add)(broker)

    def perm(self, perm: int, broker: str) -> int:
        """A topic's permission on the broker, as shown in routes."""
        return perm & ~PERM_WRITE if broker in self._unwritable else perm

    def order(self, topic: str) -> str | None:
        """The topic's order configuration as shown in routes, or None."""
        return self.value(ORDERS, topic) if self.shows_orders else None
