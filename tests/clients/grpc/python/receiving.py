"""A push consumer of rocketmq-python-client that says what it receives."""

import os
import sys

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
)


class Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    def consume(self, message: Message) -> ConsumeResult:  # noqa: ARG002
        sys.stdout.write("received\n")
        sys.stdout.flush()
        return ConsumeResult.SUCCESS


configuration = ClientConfiguration(sys.argv[1], Credentials("any", "any"), request_timeout=30)
PushConsumer(configuration, "g-closing", Listener(), {"orders": FilterExpression()}).startup()
sys.stdin.read()
os._exit(0)
