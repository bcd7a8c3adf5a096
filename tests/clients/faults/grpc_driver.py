"""Drives rocketmq-python-client by lines of JSON: commands on stdin, answers and messages on stdout."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
CONFIGURATION = ClientConfiguration(OPTIONS["address"], Credentials())
INVISIBLE_S = 30
PAUSE_S = 0.2
"""After an error; a client that receives without pause is disconnected."""

_answers = os.fdopen(os.dup(1), "w")
_answering = threading.Lock()
_producer = Producer(CONFIGURATION, ("orders",))
_released = threading.Event()
"""Set when the test releases the message that the consumer is holding."""
_transactions: list[Any] = []


def tell(what: dict[str, Any]) -> None:
    with _answering:
        _answers.write(json.dumps(what) + "\n")
        _answers.flush()


class Committing(TransactionChecker):  # type: ignore[misc]  # the SDK has no types
    """Commits."""

    def check(self, message: Message) -> TransactionResolution:  # noqa: ARG002
        return TransactionResolution.COMMIT


def made(topic: str, body: str, message_group: str | None = None) -> Message:
    message = Message()
    message.topic, message.body = topic, body.encode()
    if message_group:
        message.message_group = message_group
    return message


def send(**message: str) -> dict[str, str]:
    _producer.send(made(**message))
    return {"status": "OK"}


@cache
def transactional(topic: str) -> Producer:
    producer = Producer(CONFIGURATION, (topic,), checker=Committing())
    producer.startup()
    return producer


def begin(topic: str, body: str) -> None:
    """Send a message in a transaction, which remains open."""
    producer = transactional(topic)
    transaction = producer.begin_transaction()
    producer.send(made(topic, body), transaction)
    _transactions.append(transaction)


def commit() -> None:
    _transactions.pop().commit()


def send_in_transaction(topic: str, body: str, **_other: Any) -> None:
    begin(topic, body)
    commit()


def release(body: str) -> None:  # noqa: ARG001 - there is one
    _released.set()


def consume(group: str, topic: str, holding: str | None = None) -> None:
    consumer = SimpleConsumer(CONFIGURATION, group, {topic: FilterExpression()}, 5)
    consumer.startup()
    threading.Thread(target=receive, args=(consumer, group, holding), daemon=True).start()


def receive(consumer: SimpleConsumer, group: str, holding: str | None) -> None:
    while True:
        try:
            for message in consumer.receive(16, INVISIBLE_S):
                body = message.body.decode()
                received = {"member": group, "message": {"body": body}}
                if body == holding:
                    tell(received)
                    _released.wait()
                    consumer.ack(message)
                else:
                    consumer.ack(message)  # before the test moves the clock
                    tell(received)
        except Exception as error:  # noqa: BLE001 - an application goes on, whatever it is
            tell({"problem": f"{type(error).__name__}: {error}"})
            time.sleep(PAUSE_S)


def main() -> None:
    os.dup2(2, 1)  # keeps output of the library apart from answers
    _producer.startup()
    for line in sys.stdin:
        command = json.loads(line)
        number, call = command.pop("id"), command.pop("call")
        try:
            calls: dict[str, Callable[..., Any]] = {
                call.__name__: call for call in (send, begin, commit, send_in_transaction, consume, release)
            }
            tell({"id": number, "result": calls[call](**command)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
            tell({"id": number, "error": f"{type(error).__name__}: {error}"})
    os._exit(0)


if __name__ == "__main__":
    main()
