"""The order service under test: an application of rocketmq-python-client, the same for both brokers.

It places and pays orders, cancels those that are not paid in time, and tracks the steps of a delivery. It
lives as long as the suite, as an application in a test's container does. Each test has orders of its own.
"""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

from tests.bench.suite.names import (
    ACCOUNTING,
    BILLING,
    CANCELLING,
    GIFTS,
    LARGE,
    ORDERS,
    PAYMENTS,
    SHIPPING,
    STEPS,
    TIMEOUTS,
    TRACKING,
)

PATIENCE_S: Final = 300.0
"""Time in real seconds that a test waits for the service."""

_CONSUMERS: Final = {
    BILLING: (ORDERS, FilterExpression()),
    SHIPPING: (ORDERS, FilterExpression()),
    GIFTS: (ORDERS, FilterExpression("gift")),
    LARGE: (ORDERS, FilterExpression("total > 100", FilterType.SQL)),
    CANCELLING: (TIMEOUTS, FilterExpression()),
    TRACKING: (STEPS, FilterExpression()),
    ACCOUNTING: (PAYMENTS, FilterExpression()),
}


class Shop:
    """The running service. ``timeout_s`` is how long an order may stay unpaid."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self.cancelled: list[str] = []
        self.paid: set[str] = set()
        self._timeout_s = timeout_s
        self._configuration = ClientConfiguration(endpoint, Credentials())
        self._changed = threading.Condition()
        self._received: dict[tuple[str, str], list[Message]] = defaultdict(list)
        self._failures: dict[tuple[str, str], int] = {}
        self._producer = Producer(self._configuration, (ORDERS, TIMEOUTS, STEPS))
        self._payments = Producer(self._configuration, (PAYMENTS,), checker=_Checker(self.paid))
        self._consumers = [self.consumer(group) for group in _CONSUMERS]
        for client in (self._producer, self._payments):
            client.startup()

    def consumer(self, group: str) -> PushConsumer:
        """Start one more instance of a consumer group."""
        topic, expression = _CONSUMERS[group]
        listener = _Listener(lambda message: self._handle(group, message))
        consumer = PushConsumer(self._configuration, group, listener, {topic: expression})
        consumer.startup()
        return consumer

    def close(self) -> None:
        """Stop all clients."""
        for client in (*self._consumers, self._producer, self._payments):
            client.shutdown()

    # ── what the service sends ──

    def place(self, order: str, *, tag: str = "order", **details: Any) -> str:
        """Send an order; ``details`` become part of its body. Returns the message's id."""
        receipt = self._producer.send(_message(ORDERS, order, tag, details))
        return str(receipt.message_id)

    def place_later(self, order: str) -> Any:
        """Send an order without waiting; returns a future."""
        return self._producer.send_async(_message(ORDERS, order, "order", {}))

    def expect_payment(self, order: str, after_s: float | None = None) -> str:
        """Send the order's timeout, due after the service's time or ``after_s``. Returns its handle."""
        message = _message(TIMEOUTS, order, "timeout", {})
        message.delivery_timestamp = int(time.time() + (self._timeout_s if after_s is None else after_s))
        return str(self._producer.send(message).recall_handle)

    def recall(self, handle: str) -> None:
        """Take a timeout back."""
        self._producer.recall_message(TIMEOUTS, handle)

    def step(self, order: str, step: str) -> None:
        """Send a step of an order's delivery; the steps of one order are in order."""
        message = _message(STEPS, order, "step", {"step": step})
        message.message_group = order
        self._producer.send(message)

    def begin_payment(self, order: str) -> Any:
        """Send a payment as a half message; returns its transaction."""
        transaction = self._payments.begin_transaction()
        self._payments.send(_message(PAYMENTS, order, "payment", {}), transaction)
        return transaction

    # ── what it receives ──

    def fail(self, group: str, order: str, times: int) -> None:
        """Let a group fail at its next ``times`` attempts to handle the order."""
        with self._changed:
            self._failures[group, order] = times

    def received(self, group: str, order: str) -> list[Message]:
        """Return the messages of an order that a group has got, with all attempts."""
        with self._changed:
            return list(self._received[group, order])

    def wait_for(self, group: str, order: str, times: int = 1) -> list[Message]:
        """Wait until a group has got so many messages of an order."""
        self.wait(lambda: len(self._received[group, order]) >= times)
        return self.received(group, order)

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on what the service has received holds."""
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S), dict(self._received)

    def _handle(self, group: str, message: Message) -> bool:
        order = json.loads(message.body)["order"]
        with self._changed:
            left = self._failures.get((group, order), 0)
            self._failures[group, order] = max(left - 1, 0)
            if not left and group == CANCELLING and order not in self.paid:
                self.cancelled.append(order)
            self._received[group, order].append(message)
            self._changed.notify_all()
        return not left


class _Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, handle: Callable[[Message], bool]) -> None:
        self._handle = handle

    def consume(self, message: Message) -> ConsumeResult:
        return ConsumeResult.SUCCESS if self._handle(message) else ConsumeResult.FAILURE


class _Checker(TransactionChecker):  # type: ignore[misc]
    def __init__(self, paid: set[str]) -> None:
        self._paid = paid

    def check(self, message: Message) -> TransactionResolution:
        is_paid = json.loads(message.body)["order"] in self._paid
        return TransactionResolution.COMMIT if is_paid else TransactionResolution.ROLLBACK


def _message(topic: str, order: str, tag: str, details: Mapping[str, Any]) -> Message:
    message = Message()
    message.topic, message.tag, message.keys = topic, tag, order
    message.body = json.dumps({"order": order, **details}, ensure_ascii=False).encode()
    message.add_property("shop", "berlin")
    message.add_property("total", str(details.get("total", 0)))
    return message
