"""The example of docs/clients.md for Aliyun: the original article's method, with the Python SDK."""

import logging
import time

from mq_http_sdk.mq_client import MQClient
from mq_http_sdk.mq_exception import MQExceptionBase
from mq_http_sdk.mq_producer import TopicMessage


def send_delay_message(
    client: MQClient, topic: str, message: str, key: str, delay_ms: int, tag: str
) -> str | None:
    delayed = TopicMessage(message, tag)
    delayed.set_message_key(key)
    delayed.set_start_deliver_time(int(time.time() * 1000) + delay_ms)
    try:
        published = client.get_producer("", topic).publish_message(delayed)
    except MQExceptionBase as error:
        logging.warning("message %s was not sent: %s", key, error)
        return None
    return str(published.message_id)


if __name__ == "__main__":
    aliyun = MQClient("http://127.0.0.1:9877", "any key", "any secret")
    print(send_delay_message(aliyun, "orders", "order 7 was not paid", "7", 30 * 60_000, "timeout"))
