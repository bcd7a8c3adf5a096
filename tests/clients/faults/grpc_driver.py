"""Drives rocketmq-python-client by lines of JSON: commands on stdin, answers and messages on stdout."""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
CONFIGURATION = ClientConfiguration(OPTIONS["address"], Credentials())
INVISIBLE_S = 30

_answers = os.fdopen(os.dup(1), "w")
_answering = threading.Lock()
_producer = Producer(CONFIGURATION, ("orders",))


def tell(what: dict[str, Any]) -> None:
    with _answering:
        _answers.write(json.dumps(what) + "\n")
        _answers.flush()


def send(topic: str, body: str) -> dict[str, str]:
    message = Message()
    message.topic, message.body = topic, body.encode()
    _producer.send(message)
    return {"status": "OK"}


def consume(group: str, topic: str) -> None:
    consumer = SimpleConsumer(CONFIGURATION, group, {topic: FilterExpression()}, 5)
    consumer.startup()
    threading.Thread(target=receive, args=(consumer, group), daemon=True).start()


def receive(consumer: SimpleConsumer, group: str) -> None:
    while True:
        try:
            for message in consumer.receive(16, INVISIBLE_S):
                consumer.ack(message)
                shown = dict.fromkeys(("topic", "message_id"), "") | {"body": message.body.decode()}
                numbers = dict.fromkeys(("queue_id", "queue_offset", "times"), 0)
                tell({"member": group, "message": {**shown, **numbers, "properties": {}}})
        except Exception as error:  # noqa: BLE001 - an application goes on, whatever it is
            tell({"problem": f"{type(error).__name__}: {error}"})


def main() -> None:
    os.dup2(2, 1)  # keeps output of the library apart from answers
    _producer.startup()
    for line in sys.stdin:
        command = json.loads(line)
        number, call = command.pop("id"), command.pop("call")
        try:
            calls: dict[str, Callable[..., Any]] = {"send": send, "consume": consume}
            tell({"id": number, "result": calls[call](**command)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
            tell({"id": number, "error": f"{type(error).__name__}: {error}"})
    os._exit(0)


if __name__ == "__main__":
    main()
