"""Features of RocketMQ 5.4 and 5.5 proxies that ordinary messages lack are refused by name, never ignored."""

from typing import Any

import pytest

from mocketmq.grpc_proxy.messages import message_class
from tests.support.grpc import GrpcClient, running_grpc

BAD_KEY, BAD_HANDLE = 40_007, 40_013


@pytest.mark.parametrize("name", ["_SYS_MSG_PRIORITY_", "__LITE_TOPIC"])
async def test_properties_behind_newer_fields_are_refused(name: str) -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("m", properties={name: "9"}))
        sentence = f"property {name} is reserved for RocketMQ"
        assert (answer.status.code, answer.status.message) == (BAD_KEY, sentence)
        assert await client.receive() == []


async def received(client: GrpcClient) -> Any:
    """Return a message that the group has received."""
    await client.send(client.message("m"))
    [message] = await client.receive()
    return message


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
            BAD_HANDLE,
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
        ("TelemetryCommand", "notify_unsubscribe_lite_command"): 9,
        ("SyncLiteSubscriptionRequest", "lite_topic_set"): 4,
        ("SyncLiteSubscriptionRequest", "offset_option"): 6,
    }
    for (message, field), number in numbers.items():
        assert message_class(message).DESCRIPTOR.fields_by_name[field].number == number
