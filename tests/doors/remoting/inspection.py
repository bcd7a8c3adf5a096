"""Reads a broker's tables as tools do; keys of tables may be objects."""

import json
from typing import Any

from mocketmq.remoting.wire import fastjson
from tests.support.remoting import RemotingClient

RUNTIME, TOPIC_STATS, CONSUMERS, PRODUCERS, CONSUME_STATS = 28, 202, 203, 204, 208
GROUPS_OF, TIME_SPANS, CORRECTIONS, STATS, ALL_CONSUME_STATS, CONSUME_QUEUE = 300, 303, 308, 315, 317, 321
ALL_PRODUCERS, TOPICS_OF, SUBSCRIPTION_OF = 328, 343, 345


async def look(client: RemotingClient, code: int, **ext: object) -> Any:
    """Send a request, and return the body of its answer."""
    return fastjson.loads((await client.ok(code, {name: str(value) for name, value in ext.items()})).body)


def by_queue(table: dict[str, Any]) -> dict[tuple[str, int], Any]:
    """Convert a table whose keys are queues to keys of topic and queue id."""
    found = {}
    for key, value in table.items():
        queue = json.loads(key)
        assert queue.pop("brokerName") == "broker-a"
        found[queue["topic"], queue["queueId"]] = value
    return found
