"""A producer and a push consumer of rocketmq-python-client; sends a message for each line that it reads."""

import os
import sys

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)


def say(what: str, body: str) -> None:
    sys.stdout.write(f"{what} {body}\n")
    sys.stdout.flush()


class Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    def consume(self, message: Message) -> ConsumeResult:
        say("received", message.body.decode())
        return ConsumeResult.SUCCESS


configuration = ClientConfiguration(sys.argv[1], Credentials("any", "any"), request_timeout=10)
producer = Producer(configuration, ("orders",))
producer.startup()
PushConsumer(configuration, "billing", Listener(), {"orders": FilterExpression()}).startup()
say("ready", "")
for line in sys.stdin:
    message = Message()
    message.topic, message.body = "orders", line.strip().encode()
    try:
        producer.send(message)
    except Exception:  # noqa: BLE001 - whatever the SDK raises
        say("failed", line.strip())
    else:
        say("sent", line.strip())
os._exit(0)
