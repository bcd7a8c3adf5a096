"""Features that only Aliyun's client for Python has."""

import asyncio

import pytest
from mq_http_sdk.mq_exception import MQClientParameterException, MQServerException

from tests.clients.conftest import Broker
from tests.clients.python_sdk import PythonSdk, open_python_sdk
from tests.clients.sdk import Account, Outgoing

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"


@pytest.mark.point("Exceptions have type, message, request id and host id", "python")
async def test_server_exception(broker: Broker, topic: str) -> None:
    async with open_python_sdk(Account(broker.url)) as sdk:
        with pytest.raises(MQServerException) as raised:
            await asyncio.to_thread(sdk.client.get_consumer("", topic, GROUP).consume_message)
    error = raised.value
    assert (error.type, error.message) == ("MessageNotExist", "Message not exist.")
    assert error.request_id == error.req_id
    assert error.request_id.isalnum()
    assert error.host_id == broker.url
    assert error.sub_errors is None


@pytest.mark.point("Bad handles are `sub_errors` of one exception", "python")
async def test_sub_errors(broker: Broker, topic: str) -> None:
    async with open_python_sdk(Account(broker.url)) as sdk:
        await sdk.publish(topic, Outgoing())
        [message] = await sdk.take(topic, GROUP)
        consumer = sdk.client.get_consumer("", topic, GROUP)
        with pytest.raises(MQServerException) as raised:
            await asyncio.to_thread(consumer.ack_message, ["garbled", message.handle])
    error = raised.value
    assert error.type == "ReceiptHandleError"
    assert error.message.startswith("The receipt handle you provide is not valid.")
    assert error.request_id
    assert error.sub_errors == [
        {"ErrorCode": error.type, "ErrorMessage": error.message, "ReceiptHandle": "garbled"}
    ]


@pytest.mark.point("One connection serves 100 requests of all kinds, also refused ones", "python")
async def test_keep_alive(broker: Broker, topic: str) -> None:
    async with open_python_sdk(Account(broker.url)) as sdk:
        sockets = set()
        for number in range(25):
            await sdk.publish(topic, Outgoing(body=str(number)))
            [message] = await sdk.take(topic, GROUP)
            await sdk.acknowledge(topic, GROUP, [message.handle])
            assert await sdk.take(topic, GROUP) == []
            sockets.add(sdk.client.http.conn.sock.getsockname())
        assert len(sockets) == 1


@pytest.mark.point("`]]>` in a body", "python")
async def test_end_of_cdata(broker: Broker, topic: str) -> None:
    async with open_python_sdk(Account(broker.url)) as sdk:
        await sdk.publish(topic, Outgoing(body="a ]]> b <&>\"'"))
        assert await sdk.bodies(topic, GROUP) == ["a ]]> b <&>\"'"]


@pytest.mark.point("Messages that the library itself refuses never reach the broker", "python")
@pytest.mark.parametrize(
    "outgoing", [Outgoing(body=""), Outgoing(properties={"a": "b:c"}), Outgoing(tag="t" * 65)]
)
async def test_checks_of_the_library(broker: Broker, topic: str, outgoing: Outgoing) -> None:
    async with open_python_sdk(Account(broker.url)) as sdk:
        with pytest.raises(MQClientParameterException):
            await sdk.publish(topic, outgoing)
        assert await sdk.take(topic, GROUP) == []


@pytest.mark.point("A trailing slash of the address", "python")
async def test_trailing_slash(broker: Broker, topic: str) -> None:
    async with open_python_sdk(Account(f"{broker.url}/")) as sdk:
        assert isinstance(sdk, PythonSdk)
        await sdk.publish(topic, Outgoing(body="there"))
        assert await sdk.bodies(topic, GROUP) == ["there"]
