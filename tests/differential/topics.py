"""Creates topics and groups for a proxy, because a proxy creates none itself."""

import asyncio
import json

from mocketmq.remoting.wire.codes import RequestCode
from tests.support.patience import HANGING_S
from tests.support.remoting import connected

ONE_QUEUE = {
    "defaultTopic": "TBW102",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
"""Header fields of a topic with one queue, except its name."""


async def make_topic(
    host: str, namesrv_port: int, broker_port: int, topic: str, kind: str, queues: int = 1
) -> None:
    """Create a topic with a message type, and wait until the name server routes it."""
    numbers = dict.fromkeys(("readQueueNums", "writeQueueNums"), str(queues))
    ext = {"topic": topic, **ONE_QUEUE, **numbers, "attributes": f"+message.type={kind}"}
    async with connected(host, broker_port) as client:
        assert (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == 0
    async with asyncio.timeout(HANGING_S), connected(host, namesrv_port) as client:
        while (await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def make_groups(host: str, broker_port: int, *groups: str) -> None:
    """Create groups, without which the proxy of 5.5.0 refuses their consumers."""
    async with connected(host, broker_port) as client:
        for group in groups:
            body = json.dumps({"groupName": group}).encode()
            answer = await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
            assert answer.code == 0
