"""Sends priorities with rocketmq-python-client and receives them twice; prints their order."""

import os
import sys

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, Producer, SimpleConsumer
from rocketmq.v5.exception import InternalErrorException

ADDRESS, TOPIC, OTHER, GROUP, LOWEST = sys.argv[1:]
CONFIGURATION = ClientConfiguration(ADDRESS, Credentials(), request_timeout=30)
INVISIBLE_S = 10
PRIORITIES = range(int(LOWEST), 10)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def message(topic: str, priority: int) -> Message:
    made = Message()
    made.topic, made.body, made.priority = topic, str(priority).encode(), priority
    return made


def receive(limit: int) -> list[Message]:
    found: list[Message] = []
    while not found:
        try:
            found = consumer.receive(limit, INVISIBLE_S)
        except InternalErrorException:  # a proxy of 5.5.0 that does not have this client's settings yet
            continue
    for one in found:
        assert one.priority == int(one.body)
        say(one.priority, one.delivery_attempt)
    return found


producer = Producer(CONFIGURATION, (TOPIC, OTHER))
producer.startup()
for priority in PRIORITIES:
    producer.send(message(TOPIC, priority))
try:
    producer.send(message(OTHER, 1))
    say("accepted")
except Exception as error:  # noqa: BLE001 - the SDK's kinds of errors differ by version
    say("refused", "PRIORITY" in str(error))
consumer = SimpleConsumer(CONFIGURATION, GROUP, {TOPIC: FilterExpression()}, 5)
consumer.startup()
for taken in receive(4)[:2]:
    consumer.ack(taken)
say("end")
sys.stdin.readline()
left = len(PRIORITIES) - 2
while left:
    for taken in receive(32):
        consumer.ack(taken)
        left -= 1
say("end")
os._exit(0)
