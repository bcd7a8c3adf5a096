"""Consumes with rocketmq-python-client: one group fails always, one never acknowledges. Says each attempt."""

import os
import sys
import threading

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
    SimpleConsumer,
)

ADDRESS, TOPIC, FAILING, HANGING = sys.argv[1:]
CONFIGURATION = ClientConfiguration(ADDRESS, Credentials("any", "any"), request_timeout=30)
INVISIBLE_S = 3_600


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Failing(MessageListener):  # type: ignore[misc]  # the SDK has no types
    def consume(self, message: Message) -> ConsumeResult:
        say(FAILING, message.delivery_attempt)
        return ConsumeResult.FAILURE


def hang() -> None:
    while True:
        for message in simple.receive(1, INVISIBLE_S):
            say(HANGING, message.delivery_attempt)


PushConsumer(CONFIGURATION, FAILING, Failing(), {TOPIC: FilterExpression()}).startup()
simple = SimpleConsumer(CONFIGURATION, HANGING, {TOPIC: FilterExpression()}, 5)
simple.startup()
threading.Thread(target=hang, daemon=True).start()
sys.stdin.read()
os._exit(0)
