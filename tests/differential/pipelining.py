"""Operations of clients that pipeline requests, and of group members that hand over a queue."""

import json
from collections.abc import Mapping
from time import monotonic

from mocketmq.remoting.wire.record import decode_records
from tests.differential.answers import records_seen
from tests.differential.op import Seen
from tests.differential.operations import HELD_MS, Side
from tests.doors.remoting import consuming
from tests.support.remoting import RemotingClient


class PipeliningSide(Side):
    """One broker. Offsets are counted from the start of each queue."""

    async def pipelined(self, group: str, topic: str, queue_id: int, count: int) -> Seen:
        """Alternate oneway 15 and 14 in one burst; return each answer's lag behind the commit before it.

        Returns nothing if the queue is empty. RocketMQ passes the requests to its threads in this order, so
        a query hardly ever overtakes a commit.
        """
        end, start = await self._offset("maxOffset", topic, queue_id), await self._start(topic, queue_id)
        if end == start:
            return {}
        client, place = await self.client(), consuming.place(queue_id, topic, group)
        answers = []
        for offset in (start + n % (end - start + 1) for n in range(count)):
            client.oneway(consuming.UPDATE_OFFSET, {**place, "commitOffset": str(offset)})
            answers.append((offset, client.ask(consuming.QUERY_OFFSET, place)))
        return {"behind": [offset - int((await answer).ext["offset"]) for offset, answer in answers]}

    async def held_reset(self, group: str, topic: str, queue_id: int, ext: Mapping[str, str]) -> Seen:
        """Pull (11) from the end of a queue, and reset (222) during the long poll."""
        start = await self._offset("maxOffset", topic, queue_id)
        pull = consuming.pull_of(
            start,
            consuming.SUSPEND | consuming.SUBSCRIPTION,
            topic=topic,
            queueId=queue_id,
            consumerGroup=group,
            suspendTimeoutMillis=HELD_MS,
        )
        waiting, asked_s = (await self.client("holding")).ask(consuming.PULL, pull), monotonic()
        done = await self.change(consuming.RESET_OFFSET, ext)
        self.held_too_long(asked_s, HELD_MS)
        return {"reset": done, "pulled": self._pulled(await waiting)}

    async def hand_over(
        self, group: str, topic: str, queue_id: int, giver: str, taker: str, count: int, *, ordered: bool
    ) -> Seen:
        """One member commits and releases the queue. Another member takes the queue, and continues to pull.

        Ordered members hand over a lock. Otherwise the giver unregisters, and the broker notifies the taker.
        """
        first, second = await self.client(giver), await self.client(taker)
        place = consuming.place(queue_id, topic, group)
        queue = {"brokerName": "broker-a", "topic": topic, "queueId": queue_id}
        locks = {
            name: json.dumps({"clientId": f"id-{name}", "consumerGroup": group, "mqSet": [queue]}).encode()
            for name in (giver, taker)
        }
        if ordered:
            await first.ok(consuming.LOCK, body=locks[giver])
        consumed, offset = await self._consumed(first, topic, queue_id, group, count)
        while not second.pushes.empty():
            second.pushes.get_nowait()
        # Wait for the answer, because upstream has separate thread pools for commits and locks, and a oneway
        # commit could take effect after the unlock.
        await first.ok(consuming.UPDATE_OFFSET, {**place, "commitOffset": str(offset)})
        if ordered:
            await first.ok(consuming.UNLOCK, body=locks[giver])
            await second.ok(consuming.LOCK, body=locks[taker])
        else:
            await first.ok(consuming.UNREGISTER, {"clientID": f"id-{giver}", "consumerGroup": group})
            await second.push()
        seen = {"consumed": consumed, "then": (await self._consumed(second, topic, queue_id, group, 32))[0]}
        if ordered:
            await second.ok(consuming.UNLOCK, body=locks[taker])
        return seen

    async def _consumed(
        self, client: RemotingClient, topic: str, queue_id: int, group: str, count: int
    ) -> tuple[Seen, int]:
        """Pull from a member's committed offset; return the result and the offset where it would continue."""
        place = consuming.place(queue_id, topic, group)
        begun = int((await client.ok(consuming.QUERY_OFFSET, place)).ext["offset"])
        pull = consuming.pull_of(begun, topic=topic, queueId=queue_id, consumerGroup=group, maxMsgNums=count)
        answer = await client.call(consuming.PULL, pull)
        start = await self._start(topic, queue_id)
        seen = {
            "from": begun - start,
            "records": records_seen(decode_records(answer.body), self.names),
            "code": answer.code,
        }
        return seen, int(answer.ext.get("nextBeginOffset", begun))  # none if the pull is refused
