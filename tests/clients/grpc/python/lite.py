"""Sends to lite topics and consumes them with rocketmq-python-client, as the lines of stdin say."""

import os
import sys

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    LitePushConsumer,
    Message,
    MessageListener,
    Producer,
)
from rocketmq.v5.exception import LiteSubscriptionQuotaExceededException

endpoints, topic, group = sys.argv[1:]
failed: set[str] = set()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    """Prints each message, and fails once for the body ``fails``."""

    def consume(self, message: Message) -> ConsumeResult:
        body = message.body.decode()
        say("got", message.lite_topic or "-", body, message.delivery_attempt)
        if body == "fails" and message.message_id not in failed:
            failed.add(message.message_id)
            return ConsumeResult.FAILURE
        return ConsumeResult.SUCCESS


configuration = ClientConfiguration(endpoints, Credentials(), request_timeout=30)
producer = Producer(configuration, (topic,))
producer.startup()
consumer = LitePushConsumer(configuration, group, topic, Listener())
consumer.startup()
say("ready")
for line in sys.stdin:
    command, *words = line.split()
    try:
        if command == "subscribe":
            consumer.subscribe_lite(words[0])
        elif command == "unsubscribe":
            consumer.unsubscribe_lite(words[0])
        else:
            message = Message()
            message.topic, message.lite_topic, message.body = topic, words[0], words[1].encode()
            producer.send(message)
        say("done")
    except LiteSubscriptionQuotaExceededException:
        say("over quota")
producer.shutdown()
os._exit(0)  # to close the consumer would take as long as its long poll
