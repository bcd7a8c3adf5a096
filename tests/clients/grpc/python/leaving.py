"""Closes rocketmq-python-client while it receives, idles until stdin ends, closes it while it sends."""

import os
import sys
import threading
import time
from concurrent.futures import Future, wait
from typing import Any

import rocketmq
from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, Producer, SimpleConsumer

ADDRESS, SENT, EMPTY = sys.argv[1:]
CONFIGURATION = ClientConfiguration(ADDRESS, Credentials("any", "any"))
SENDS = 40
LONGEST_S = 5.0  # receives in progress never end, because the closing SDK blocks its own event loop


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def outcome(future: "Future[Any]") -> str:
    if not future.done():
        return "open"
    if error := future.exception():
        return type(error).__name__
    return "empty" if future.result() == [] else "ok"


def answered(simple: SimpleConsumer) -> None:
    """Receive until the broker answers, because a proxy fails before it has the settings of the client."""
    while True:
        try:
            simple.receive(1, 30)
        except Exception:  # noqa: BLE001, S112 - the SDK's kinds of errors differ by version
            continue
        return


def close_while_sending() -> None:
    producer = Producer(CONFIGURATION, (SENT,))
    producer.startup()
    sends = []
    for _ in range(SENDS):
        message = Message()
        message.topic, message.body = SENT, b"closing"
        sends.append(producer.send_async(message))
    producer.shutdown()
    wait(sends, LONGEST_S)
    ended = [outcome(one) for one in sends]
    ok, still_open = ended.count("ok"), ended.count("open")
    say(f"sends {ok} {SENDS - ok - still_open} {still_open}")


def close_while_receiving() -> None:
    simple = SimpleConsumer(CONFIGURATION, "g-closing", {EMPTY: FilterExpression()}, 5)
    simple.startup()
    answered(simple)
    received: Future[Any] = Future()

    def receive() -> None:
        try:
            received.set_result(simple.receive(1, 30))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test compares it
            received.set_exception(error)

    threading.Thread(target=receive, daemon=True).start()
    time.sleep(1)  # until it waits
    simple.shutdown()
    wait([received], LONGEST_S)
    say(f"receive {outcome(received)}")


def consume() -> None:
    if hasattr(rocketmq, "PushConsumer"):

        class Listener(rocketmq.MessageListener):  # type: ignore[misc]  # the SDK has no types
            def consume(self, message: Message) -> Any:  # noqa: ARG002
                return rocketmq.ConsumeResult.SUCCESS

        rocketmq.PushConsumer(CONFIGURATION, "g-idle", Listener(), {EMPTY: FilterExpression()}).startup()
    else:
        simple = SimpleConsumer(CONFIGURATION, "g-idle", {EMPTY: FilterExpression()}, 5)
        simple.startup()
        answered(simple)

        def receive() -> None:
            while True:
                simple.receive(1, 30)

        threading.Thread(target=receive, daemon=True).start()


threading.excepthook = lambda args: say(f"uncaught {args.exc_value!r}")
close_while_receiving()
consume()
say("idle")
sys.stdin.read()
close_while_sending()
os._exit(0)
