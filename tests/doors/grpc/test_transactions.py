"""Transactions by gRPC, with check-backs."""

import asyncio

from mocketmq.clock import US_PER_S
from tests.support.grpc import COMMIT, ROLLBACK, TRANSACTION, bodies, grpc_client, running_grpc


async def test_a_half_message_is_invisible_until_its_commit() -> None:
    async with running_grpc() as (_, client):
        one, two = (client.message(body, message_type=TRANSACTION) for body in ("kept", "dropped"))
        for message, resolution in ((one, COMMIT), (two, ROLLBACK)):
            [entry] = (await client.send(message)).entries
            assert entry.transaction_id
            assert await client.receive() == []
            ended = await client.call(
                "EndTransaction",
                topic={"name": "orders"},
                message_id=entry.message_id,
                transaction_id=entry.transaction_id,
                resolution=resolution,
                source=1,
            )
            assert ended.status.code == 20_000
            got = await client.receive()
            for half in got:
                assert half.system_properties.message_type == TRANSACTION
                assert dict(half.user_properties) == {"__transactionId__": entry.transaction_id}
            await client.ack(*got) if got else None
            assert bodies(got) == (["kept"] if resolution == COMMIT else [])


async def test_answer_to_a_check_back_decides() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        await telemetry.produce("payments")  # sending to "orders" adds that topic
        message = client.message("t", message_type=TRANSACTION)
        await client.send(message)
        moving = emulator.broker.mover.advance(6 * US_PER_S)

        async def answer() -> None:
            command = (await telemetry.command()).recover_orphaned_transaction_command
            assert command.message.body == b"t"
            assert command.message.system_properties.body_digest.checksum
            ended = await client.call(
                "EndTransaction",
                topic={"name": "orders"},
                message_id=command.message.system_properties.message_id,
                transaction_id=command.transaction_id,
                resolution=COMMIT,
                source=2,
            )
            assert ended.status.code == 20_000

        await asyncio.gather(moving, answer())
        assert bodies(await client.receive()) == ["t"]


async def test_invalid_transaction_ends_are_refused() -> None:
    async with running_grpc() as (_, client):
        for transaction_id, code in ((" ", 40_008), ("unknown", 50_001)):
            ended = await client.call(
                "EndTransaction",
                topic={"name": "orders"},
                message_id="m",
                transaction_id=transaction_id,
                resolution=COMMIT,
            )
            assert ended.status.code == code


async def test_check_back_goes_to_a_remaining_producer_of_the_topic() -> None:
    async with running_grpc() as (emulator, client):
        async with client.telemetry() as telemetry:
            await telemetry.produce("orders")
            await client.send(client.message("t", message_type=TRANSACTION))
        door = emulator.doors.grpc
        assert door
        async with grpc_client(door.port, "other@2@0@def") as other, other.telemetry() as telemetry:
            await telemetry.produce("orders")

            moving = asyncio.create_task(emulator.broker.mover.advance(6 * US_PER_S))
            assert (await telemetry.command()).HasField("recover_orphaned_transaction_command")
            await moving
