"""The name server's own state: key-value configurations, and whether routes let clients write."""

from collections.abc import Mapping
from typing import Final

from mocketmq.broker.registry.topics import PERM_WRITE, Topic
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

ORDERS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of order configurations: by topic, how many queues of which broker get messages in order."""

_SAVE = (
    "INSERT INTO kv_configs VALUES (?, ?, ?)"
    " ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM kv_configs WHERE namespace = ? AND key = ?"


class NameServer:
    """Reads are from memory; a change is seen once it is committed, and answered once it is durable.

    ``is_writable`` and ``shows_orders`` hold until the next start, as with upstream's name server: whether
    routes let clients write, and whether they show order configurations (orderMessageEnable).
    """

    def __init__(self, store: Store) -> None:
        self.is_writable = True
        self.shows_orders = False
        self._database = store.database
        self._writer = store.writer
        self._configs: dict[str, dict[str, str]] = {}  # by namespace and key

    async def load(self) -> None:
        """Read the configurations from the store."""
        for namespace, key, value in await self._database.rows("SELECT * FROM kv_configs"):
            self._configs.setdefault(namespace, {})[key] = value

    def namespace(self, name: str) -> Mapping[str, str]:
        """All values of a namespace by key."""
        return self._configs.get(name, {})

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""

        def apply() -> None:
            self._configs.setdefault(namespace, {})[key] = value

        def work(batch: Batch) -> None:
            batch.execute(_SAVE, (namespace, key, value))
            batch.on_commit(apply)

        await self._writer.commit(work, alone=True)

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if it is there."""

        def apply() -> None:
            values = self._configs.get(namespace, {})
            values.pop(key, None)
            if not values:
                self._configs.pop(namespace, None)

        def work(batch: Batch) -> None:
            batch.execute(_DELETE, (namespace, key))
            batch.on_commit(apply)

        await self._writer.commit(work, alone=True)

    def perm(self, topic: Topic) -> int:
        """The topic's permission, as routes show it."""
        return topic.perm if self.is_writable else topic.perm & ~PERM_WRITE

    def order(self, topic: str) -> str | None:
        """The topic's order configuration, as routes show it; or None."""
        return self.namespace(ORDERS).get(topic) if self.shows_orders else None
