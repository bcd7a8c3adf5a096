"""Features of RocketMQ 5.4 and 5.5 proxies are refused by name, never ignored."""

from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from mocketmq.grpc_proxy.messages import message_class
from tests.support.grpc import GrpcClient, grpc_client, running_grpc

UNSUPPORTED, BAD_KEY = 50_500, 40_007
LITE = 5
LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER = 5, 6
NO_LITE_TOPICS = "lite topics (RocketMQ 5.5) are not supported"


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ({"lite_topic": "chat-1"}, f"lite_topic is 'chat-1'; allowed: none, as {NO_LITE_TOPICS}"),
        ({"lite_topic": ""}, NO_LITE_TOPICS),
        ({"lite_topic": "chat-1", "message_type": LITE}, NO_LITE_TOPICS),
        (
            {"message_type": LITE},
            "message_type is LITE; allowed: NORMAL, FIFO, DELAY, TRANSACTION or PRIORITY",
        ),
    ],
)
async def test_a_message_with_a_lite_topic_is_refused(system: dict[str, Any], sentence: str) -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("plain"), client.message("m", **system))
        assert answer.status.code == UNSUPPORTED
        assert sentence in answer.status.message
        assert await client.receive() == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("_SYS_MSG_PRIORITY_", "property _SYS_MSG_PRIORITY_ is set by RocketMQ alone"),
        ("__LITE_TOPIC", f"property __LITE_TOPIC is '9'; allowed: no such property, as {NO_LITE_TOPICS}"),
    ],
)
async def test_properties_behind_newer_fields_are_refused(name: str, sentence: str) -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("m", properties={name: "9"}))
        assert (answer.status.code, answer.status.message) == (BAD_KEY, sentence)
        assert await client.receive() == []


@pytest.mark.parametrize("kind", [LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER])
async def test_a_lite_topic_consumer_gets_no_messages_of_the_whole_topic(kind: int) -> None:
    lite = {"client_type": kind, "subscription": {"group": {"name": "billing"}, "subscriptions": []}}
    async with running_grpc() as (emulator, client), grpc_client(client.port, "lite@1@0@abc") as other:
        await client.send(client.message("m"))
        async with other.telemetry() as telemetry:
            subscription = (await telemetry.settings(**lite)).settings.subscription
            assert (subscription.lite_subscription_quota, subscription.max_lite_topic_size) == (2_000, 64)
            status, messages = await other.try_receive("billing", "orders")
            assert (status.code, messages) == (UNSUPPORTED, [])
            assert status.message == (
                "client_type is LITE_PUSH_CONSUMER or LITE_SIMPLE_CONSUMER; allowed: PUSH_CONSUMER or"
                f" SIMPLE_CONSUMER, as {NO_LITE_TOPICS}. Use a consumer of whole topics"
            )
            assert emulator.broker.registry.clients.consumer("billing", "lite@1@0@abc") is None
        assert [message.body for message in await client.receive()] == [b"m"]


async def test_a_client_that_switches_to_whole_topics_is_served() -> None:
    async with running_grpc() as (_, client):
        await client.send(client.message("m"))
        async with client.telemetry() as telemetry:
            await telemetry.settings(
                client_type=LITE_PUSH_CONSUMER, subscription={"group": {"name": "billing"}}
            )
            assert (await client.try_receive("billing", "orders"))[0].code == UNSUPPORTED
            assert (await telemetry.consume()).settings.subscription.lite_subscription_quota == 0
            assert len(await client.receive()) == 1


async def test_the_rpc_of_lite_subscriptions_is_unimplemented_with_a_reason() -> None:
    async with running_grpc() as (_, client):
        with pytest.raises(GRPCError) as refused:
            await client.call("Heartbeat", path="SyncLiteSubscription")
        assert refused.value.status is Status.UNIMPLEMENTED
        assert refused.value.message == (
            "Method not found: apache.rocketmq.v2.MessagingService/SyncLiteSubscription; a lite subscription"
            f" is refused, as {NO_LITE_TOPICS}"
        )


async def received(client: GrpcClient) -> Any:
    """Return a message that the group has received."""
    await client.send(client.message("m"))
    [message] = await client.receive()
    return message


async def test_lite_topic_settlement_is_refused() -> None:
    async with running_grpc() as (_, client):
        message = await received(client)
        of: dict[str, Any] = {"group": {"name": "billing"}, "topic": {"name": "orders"}}
        handle = message.system_properties.receipt_handle
        entry = {"message_id": "x", "receipt_handle": handle, "lite_topic": "chat-1"}
        for answer in (
            await client.call("AckMessage", **of, entries=[entry]),
            await client.call(
                "ChangeInvisibleDuration",
                **of,
                receipt_handle=handle,
                invisible_duration={"seconds": 0},
                lite_topic="chat-1",
            ),
            await client.call(
                "ForwardMessageToDeadLetterQueue", **of, receipt_handle=handle, lite_topic="chat-1"
            ),
        ):
            assert answer.status.code == UNSUPPORTED
            assert answer.status.message == f"lite_topic is 'chat-1'; allowed: none, as {NO_LITE_TOPICS}"
        assert (await client.ack(message)).status.code == 20_000


async def test_invisible_duration_always_counts_an_attempt() -> None:
    async with running_grpc() as (_, client):
        message = await received(client)
        change: dict[str, Any] = {
            "group": {"name": "billing"},
            "topic": {"name": "orders"},
            "receipt_handle": message.system_properties.receipt_handle,
            "invisible_duration": {"seconds": 0},
        }
        suspended = await client.call("ChangeInvisibleDuration", **change, suspend=True)
        assert (suspended.status.code, suspended.status.message.split(";")[0]) == (
            UNSUPPORTED,
            "suspend is true",
        )
        assert await client.receive() == []
        assert (await client.call("ChangeInvisibleDuration", **change, suspend=False)).status.code == 20_000
        [again] = await client.receive()
        assert again.system_properties.delivery_attempt == 2


def test_field_numbers_match_rocketmq_apis() -> None:
    numbers = {
        ("SystemProperties", "lite_topic"): 21,
        ("SystemProperties", "priority"): 22,
        ("Subscription", "lite_subscription_quota"): 6,
        ("Subscription", "max_lite_topic_size"): 7,
        ("AckMessageEntry", "lite_topic"): 3,
        ("ChangeInvisibleDurationRequest", "lite_topic"): 6,
        ("ChangeInvisibleDurationRequest", "suspend"): 7,
        ("ForwardMessageToDeadLetterQueueRequest", "lite_topic"): 7,
    }
    for (message, field), number in numbers.items():
        assert message_class(message).DESCRIPTOR.fields_by_name[field].number == number
