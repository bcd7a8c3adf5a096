"""What an application does with rocketmq-python-client, against ``host:port``: says each step that worked."""

import sys
import threading
import time
from collections.abc import Callable

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ADDRESS = sys.argv[1]
CONFIGURATION = ClientConfiguration(ADDRESS, Credentials())
LONGEST_S = 60.0


class Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    """Fails as long as ``fails`` says so."""

    def __init__(self, fails: Callable[[Message], bool] = lambda _message: False) -> None:
        self.seen: list[tuple[str, int]] = []
        self._fails = fails
        self._changed = threading.Condition()

    def consume(self, message: Message) -> ConsumeResult:
        with self._changed:
            self.seen.append((message.body.decode(), message.delivery_attempt))
            self._changed.notify()
        return ConsumeResult.FAILURE if self._fails(message) else ConsumeResult.SUCCESS

    def wait(self, count: int) -> list[tuple[str, int]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, LONGEST_S), self.seen
            return list(self.seen)


class Checker(TransactionChecker):  # type: ignore[misc]
    """Commits."""

    def check(self, message: Message) -> TransactionResolution:
        assert message.body == b"forgotten"
        return TransactionResolution.COMMIT


def message(topic: str, body: str, **fields: object) -> Message:
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def consumer(group: str, topic: str, expression: FilterExpression | None = None) -> SimpleConsumer:
    made = SimpleConsumer(CONFIGURATION, group, {topic: expression or FilterExpression()}, 2)
    made.startup()
    return made


def take(simple: SimpleConsumer, count: int) -> list[Message]:
    """Messages, acknowledged."""
    taken: list[Message] = []
    end = time.monotonic() + LONGEST_S
    while len(taken) < count and time.monotonic() < end:
        some = simple.receive(32, 15)
        for one in some:
            simple.ack(one)
        taken += some
    assert len(taken) == count, [one.body for one in taken]
    return taken


def ok(step: str) -> None:
    sys.stdout.write(f"ok {step}\n")
    sys.stdout.flush()


producer = Producer(CONFIGURATION, ("plain",))
producer.startup()
receipt = producer.send(message("plain", "hello", tag="A", keys="k"))
simple = consumer("g-plain", "plain")
[got] = take(simple, 1)
assert (got.body, got.message_id, got.tag, got.delivery_attempt) == (b"hello", receipt.message_id, "A", 1)
ok("normal")

began = time.time()
due = int(began) + 3
producer.send(message("plain", "delayed", delivery_timestamp=due))
[got] = take(simple, 1)
assert got.body == b"delayed"
assert time.time() >= due
ok("delay")

receipt = producer.send(message("plain", "recalled", delivery_timestamp=int(time.time()) + 30))
assert producer.recall_message("plain", receipt.recall_handle)
ok("recall")

producer.send(message("plain", "longer"))
while not (some := simple.receive(1, 15)):
    pass
[held] = some
simple.change_invisible_duration(held, 30)
simple.ack(held)
ok("change")

tagged = consumer("g-tag", "filtered", FilterExpression("B"))
for tag in "ABC":
    producer.send(message("filtered", tag, tag=tag))
assert [one.body for one in take(tagged, 1)] == [b"B"]
ok("filter")

for number in range(5):
    producer.send(message("fifo", str(number), message_group="one"))
listener: Listener = Listener(
    lambda one: one.body == b"2" and one.delivery_attempt == 1 and len(listener.seen) < 4
)
ordered = PushConsumer(CONFIGURATION, "g-fifo", listener, {"fifo": FilterExpression()})
ordered.startup()
order = [body for body, _ in listener.wait(6)]
assert list(dict.fromkeys(order)) == list("01234"), order
ok("fifo")

listener = Listener(lambda _one: True)
retrying = PushConsumer(CONFIGURATION, "g-retry", listener, {"retried": FilterExpression()})
retrying.startup()
producer.send(message("retried", "bad"))
assert listener.wait(2) == [("bad", 1), ("bad", 2)]
dead = consumer("g-dead", "%DLQ%g-retry")
assert [one.body for one in take(dead, 1)] == [b"bad"]
ok("dead letter")

transactional = Producer(CONFIGURATION, ("paid",), checker=Checker())
transactional.startup()
paid = consumer("g-paid", "paid")
for body in ("committed", "rolled back", "forgotten"):
    transaction = transactional.begin_transaction()
    transactional.send(message("paid", body), transaction)
    if body == "committed":
        transaction.commit()
    elif body == "rolled back":
        transaction.rollback()
assert sorted(one.body for one in take(paid, 2)) == [b"committed", b"forgotten"]
ok("transaction")

for client in (ordered, retrying, simple, tagged, dead, paid, producer, transactional):
    client.shutdown()
ok("shutdown")
