"""Send, receive, ack and retry by gRPC."""

from mocketmq.clock import US_PER_S
from mocketmq.settings import GroupDeclaration
from tests.support.grpc import DELAY, FIFO, NORMAL, bodies, running_grpc

HOUR_US = 3_600 * US_PER_S


async def test_a_message_is_sent_received_and_acked() -> None:
    async with running_grpc() as (emulator, client):
        message = client.message("hello", tag="A", keys=["k1", "k2"], properties={"colour": "red"})
        answer = await client.send(message)
        assert (answer.status.code, answer.entries[0].status.code) == (20_000, 20_000)
        assert answer.entries[0].message_id == message.system_properties.message_id
        assert answer.entries[0].transaction_id == answer.entries[0].message_id
        [got] = await client.receive()
        system = got.system_properties
        assert (got.body, dict(got.user_properties), got.topic.name) == (
            b"hello",
            {"colour": "red"},
            "orders",
        )
        assert (system.tag, list(system.keys), system.message_type) == ("A", ["k1", "k2"], NORMAL)
        assert (system.delivery_attempt, system.body_encoding) == (1, 1)
        assert system.message_id == message.system_properties.message_id
        assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
        assert system.HasField("born_timestamp")
        assert not system.HasField("message_group")
        acked = await client.ack(got)
        assert (acked.status.code, acked.entries[0].status.code) == (20_000, 20_000)
        await emulator.broker.mover.advance(HOUR_US)
        assert await client.receive() == []
        again = await client.ack(got)
        assert again.status.code == again.entries[0].status.code == 40_013


async def test_a_delayed_message_is_never_delivered_early() -> None:
    async with running_grpc() as (emulator, client):
        answer = await client.send(client.message("later", delay_s=60))
        assert answer.entries[0].recall_handle
        due_us = emulator.broker.pending.next_due_us
        assert due_us
        await emulator.broker.mover.move_to(due_us - 1)
        assert await client.receive() == []
        await emulator.broker.mover.advance(1)
        [got] = await client.receive(wait_s=5)
        assert (got.body, got.system_properties.message_type) == (b"later", DELAY)
        assert got.system_properties.HasField("delivery_timestamp")


async def test_recalled_message_is_never_delivered() -> None:
    async with running_grpc() as (emulator, client):
        message = client.message("later", delay_s=60)
        [entry] = (await client.send(message)).entries
        recalled = await client.call(
            "RecallMessage", topic={"name": "orders"}, recall_handle=entry.recall_handle
        )
        assert (recalled.status.code, recalled.message_id) == (20_000, message.system_properties.message_id)
        await emulator.broker.mover.advance(HOUR_US)
        assert await client.receive() == []
        late = await client.call("RecallMessage", topic={"name": "orders"}, recall_handle=entry.recall_handle)
        assert late.status.code == 50_001


async def test_messages_of_a_group_share_a_queue() -> None:
    async with running_grpc() as (_, client):
        for number in range(8):
            await client.send(client.message(str(number), message_group="g"))
        got = await client.receive()
        assert len({one.system_properties.queue_id for one in got}) == 1
        assert [one.body.decode() for one in got] == list("01234567")
        assert {one.system_properties.message_type for one in got} == {FIFO}
        assert {one.system_properties.message_group for one in got} == {"g"}


async def test_message_group_maps_to_the_queue_of_upstream() -> None:
    async with running_grpc() as (_, client):
        for group in ("g1", "g2", "g3", "ü"):
            await client.send(client.message(group, message_group=group))
        got = {one.body.decode(): one.system_properties.queue_id for one in await client.receive()}
        assert got == {"g1": 0, "g2": 3, "g3": 2, "ü": 0}


async def test_empty_keys_and_properties_are_dropped() -> None:
    async with running_grpc() as (_, client):
        message = client.message("odd", keys=[""], properties={"": "x", "a": "", "b": "y"})
        assert (await client.send(message)).status.code == 20_000
        [got] = await client.receive()
        assert (dict(got.user_properties), list(got.system_properties.keys)) == ({"b": "y"}, [])


async def test_a_message_keeps_the_born_host_of_its_client() -> None:
    async with running_grpc() as (_, client):
        await client.send(client.message("told", born_host="shop-1"))
        await client.send(client.message("untold"))
        hosts = {one.body: one.system_properties.born_host for one in await client.receive()}
        assert hosts[b"told"] == "shop-1"
        assert hosts[b"untold"].startswith("127.0.0.1:")


async def test_an_unacked_message_is_redelivered_and_becomes_a_dead_letter() -> None:
    groups = (GroupDeclaration(name="billing", max_retries=2),)
    async with running_grpc(groups=groups) as (emulator, client):
        await client.send(client.message("bad"))
        for attempt in range(1, 4):
            [got] = await client.receive()
            assert got.system_properties.delivery_attempt == attempt
            if attempt % 2:
                assert (await client.change(got, 1)).status.code == 20_000
                await emulator.broker.mover.advance(1 * US_PER_S)
            else:
                await emulator.broker.mover.advance(30 * US_PER_S)
        assert await client.receive() == []
        [dead] = await client.receive("undertaker", "%DLQ%billing")
        assert dead.body == b"bad"
        assert dead.system_properties.dead_letter_queue.topic == "orders"


async def test_filters_by_tag_and_by_sql() -> None:
    async with running_grpc() as (_, client):
        await client.send(client.message("a", tag="A", properties={"n": "1"}))
        await client.send(client.message("b", tag="B", properties={"n": "2"}))
        tagged = await client.receive("g1", filter_expression={"type": 1, "expression": "B || C"})
        assert bodies(tagged) == ["b"]
        chosen = await client.receive("g2", filter_expression={"type": 2, "expression": "n < 2"})
        assert bodies(chosen) == ["a"]
        status, _ = await client.try_receive(
            "g3", "orders", filter_expression={"type": 2, "expression": "n <"}
        )
        assert status.code == 40_010
