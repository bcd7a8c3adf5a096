"""Aliyun's client for Python, ``mq_http_sdk``. It blocks, so each call runs in a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from mq_http_sdk.mq_client import MQClient
from mq_http_sdk.mq_exception import MQServerException
from mq_http_sdk.mq_producer import MQProducer, MQTransProducer, TopicMessage

from tests.clients.sdk import Account, NotSettledError, Outgoing, Published, Received, RefusedError, Sdk

T = TypeVar("T")

_WITH_GETTER = {"KEYS", "__STARTDELIVERTIME", "__SHARDINGKEY", "__TransCheckT"}


class PythonSdk(Sdk):
    """A client for Python, opened by :func:`open_python_sdk`."""

    def __init__(self, account: Account) -> None:
        self.client = MQClient(account.url, account.key_id, account.secret, account.token)
        self._instance = account.instance

    async def publish(self, topic: str, message: Outgoing) -> Published:
        return await self._call(_publish, self.client.get_producer(self._instance, topic), message)

    async def consume(
        self,
        topic: str,
        group: str,
        *,
        limit: int = 16,
        wait_s: int | None = None,
        tags: str | None = None,
        orderly: bool = False,
    ) -> list[Received]:
        consumer = self.client.get_consumer(self._instance, topic, group, tags)
        consume = consumer.consume_message_orderly if orderly else consumer.consume_message
        messages = await self._call(consume, limit, -1 if wait_s is None else wait_s)
        return [_received(message) for message in messages]

    async def acknowledge(self, topic: str, group: str, handles: Sequence[str]) -> None:
        consumer = self.client.get_consumer(self._instance, topic, group)
        await self._call(consumer.ack_message, list(handles))

    async def publish_half(self, topic: str, group: str, message: Outgoing) -> Published:
        return await self._call(_publish, self._transactions(topic, group), message)

    async def consume_half(self, topic: str, group: str) -> list[Received]:
        messages = await self._call(self._transactions(topic, group).consume_half_message, 16)
        return [_received(message) for message in messages]

    async def commit(self, topic: str, group: str, handle: str) -> None:
        await self._call(self._transactions(topic, group).commit, handle)

    async def rollback(self, topic: str, group: str, handle: str) -> None:
        await self._call(self._transactions(topic, group).rollback, handle)

    def _transactions(self, topic: str, group: str) -> MQTransProducer:
        return self.client.get_trans_producer(self._instance, topic, group)

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        with _translated():
            return await asyncio.to_thread(function, *arguments)


@asynccontextmanager
async def open_python_sdk(account: Account) -> AsyncIterator[PythonSdk]:
    """Open a new client for the account."""
    sdk = PythonSdk(account)
    try:
        yield sdk
    finally:
        sdk.client.close_connection()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except MQServerException as error:
        if error.sub_errors:
            failed = {one["ReceiptHandle"]: one["ErrorCode"] for one in error.sub_errors}
            raise NotSettledError(failed) from error
        raise RefusedError(error.type, error.request_id) from error


def _publish(producer: MQProducer, message: Outgoing) -> Published:
    topic_message = TopicMessage(message.body, message.tag or "")
    for value, set_to in (
        (message.key, topic_message.set_message_key),
        (message.start_deliver_ms, topic_message.set_start_deliver_time),
        (message.sharding_key, topic_message.set_sharding_key),
        (message.check_after_s, topic_message.set_trans_check_immunity_time),
    ):
        if value is not None:
            set_to(value)
    for name, text in message.properties.items():
        topic_message.put_property(name, text)
    published = producer.publish_message(topic_message)
    return Published(published.message_id, published.message_body_md5, published.receipt_handle or None)


def _received(message: Any) -> Received:
    return Received(
        message_id=message.message_id,
        body=message.message_body,
        body_md5=message.message_body_md5,
        tag=message.message_tag or None,
        key=message.get_message_key() or None,
        start_deliver_ms=message.get_start_deliver_time() or None,
        sharding_key=message.get_sharding_key() or None,
        properties={name: text for name, text in message.properties.items() if name not in _WITH_GETTER},
        handle=message.receipt_handle,
        publish_ms=message.publish_time,
        first_consume_ms=message.first_consume_time,
        next_consume_ms=message.next_consume_time,
        times=message.consumed_times,
    )
