"""RocketMQ clients that stay connected while a snapshot is restored continue at its offsets."""

from tests.doors.remoting.consuming import (
    COMMIT,
    PULL,
    RESET_CLIENT,
    SUBSCRIPTION,
    SUSPEND,
    UPDATE_OFFSET,
    commit,
    committed,
    join,
    place,
    pull,
    pull_of,
)
from tests.doors.remoting.consuming import bodies as pulled
from tests.doors.remoting.popping import ack, pop
from tests.doors.remoting.producing import stepped
from tests.doors.remoting.test_resets import waits
from tests.support.brokers import TOPIC, send
from tests.support.remoting import running_remoting


async def test_a_waiting_consumer_is_told_of_the_restored_offsets() -> None:
    async with running_remoting() as remoting:
        client, snapshots = remoting.client, remoting.broker.snapshots
        await stepped(remoting, 3)
        await join(client)
        await commit(client, 1)
        await snapshots.save("here")
        await commit(client, 3)
        await send(remoting.broker, "undone", queue=0)
        await commit(client, 4)
        waiting = client.ask(PULL, pull_of(4, SUSPEND | SUBSCRIPTION, suspendTimeoutMillis=60_000))
        await waits(remoting)
        await snapshots.restore("here")
        pushed = await client.push()
        assert (pushed.code, pushed.ext["topic"]) == (RESET_CLIENT, TOPIC)
        assert b'"queueId":0,"topic":"orders"}:1' in pushed.body
        assert (await waiting).code != 0
        ignored = await client.ok(UPDATE_OFFSET, place(commitOffset=3))
        assert ignored.remark == "Offset has been previously reset"
        told = await pull(client, 4, COMMIT | SUBSCRIPTION, commitOffset=4)
        assert (told.remark, told.ext["nextBeginOffset"]) == ("OFFSET_RESET", "1")
        assert await committed(client) == 1
        assert pulled(await pull(client, 1)) == ["1", "2"]
        await commit(client, 3)
        await send(remoting.broker, "again", queue=0)
        assert pulled(await pull(client, 3)) == ["again"]


async def test_messages_popped_since_the_save_are_popped_again_and_their_handles_refused() -> None:
    async with running_remoting() as remoting:
        client, snapshots = remoting.client, remoting.broker.snapshots
        await stepped(remoting, 2)
        [held, _] = await pop(client)
        await stepped(remoting, 1)
        await snapshots.save("here")
        [undone] = await pop(client)
        await snapshots.restore("here")
        [again] = await pop(client)
        assert (undone.body, again.body) == ("0", "0")
        assert await ack(client, undone.handle) == 208
        assert [await ack(client, one.handle) for one in (again, held)] == [0, 0]
