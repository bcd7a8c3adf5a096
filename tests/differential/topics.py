"""Topics, as a proxy wants them: it makes none itself."""

import asyncio

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
"""The header fields of a topic of one queue, but its name."""


async def make_topic(host: str, namesrv_port: int, broker_port: int, topic: str, kind: str) -> None:
    """Make a topic of one queue and a type of messages, and wait until the name server routes it."""
    ext = {"topic": topic, **ONE_QUEUE, "attributes": f"+message.type={kind}"}
    async with connected(host, broker_port) as client:
        assert (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == 0
    async with asyncio.timeout(HANGING_S), connected(host, namesrv_port) as client:
        while (await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
