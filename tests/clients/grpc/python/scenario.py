"""An application with rocketmq-python-client at ``host:port``, which prints each step that worked."""

import sys
import threading
import time
from collections.abc import Callable

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    LiteSimpleConsumer,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import LiteSubscriptionQuotaExceededException

ADDRESS = sys.argv[1]
KEYS = Credentials("shop", "secret")
CONFIGURATION = ClientConfiguration(ADDRESS, KEYS, request_timeout=30)
INSIDE = ClientConfiguration(ADDRESS, KEYS, "tenant", request_timeout=30)
STRANGER = ClientConfiguration(ADDRESS, Credentials("shop", "wrong"))
LONGEST_S = 60.0


class Listener(MessageListener):  # type: ignore[misc]  # the SDK has no types
    """Fails while ``fails`` is set."""

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
    """Commits the forgotten message. On a slow machine, the others are asked about, too."""

    def check(self, message: Message) -> TransactionResolution:
        if message.body == b"forgotten":
            return TransactionResolution.COMMIT
        return TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED


def message(topic: str, body: str, **fields: object) -> Message:
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def consumer(
    group: str,
    topic: str,
    expression: FilterExpression | None = None,
    configuration: ClientConfiguration = CONFIGURATION,
) -> SimpleConsumer:
    made = SimpleConsumer(configuration, group, {topic: expression or FilterExpression()}, 2)
    made.startup()
    return made


def take(simple: SimpleConsumer, count: int) -> list[Message]:
    """Receive and acknowledge messages."""
    taken: list[Message] = []
    end = time.monotonic() + LONGEST_S
    while len(taken) < count and time.monotonic() < end:
        some = simple.receive(32, 15)
        for one in some:
            simple.ack(one)
        taken += some
    assert len(taken) == count, [one.body for one in taken]
    return taken


def subscribe(lite: LiteSimpleConsumer, name: str) -> None:
    """Subscribe once the settings with the quota have arrived, for which ``startup`` does not wait."""
    end = time.monotonic() + LONGEST_S
    while True:
        try:
            return lite.subscribe_lite(name)  # type: ignore[no-any-return]
        except LiteSubscriptionQuotaExceededException:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def ok(step: str) -> None:
    sys.stdout.write(f"ok {step}\n")
    sys.stdout.flush()


producer = Producer(CONFIGURATION, ("plain",))
producer.startup()
hello = message("plain", "hello", tag="A", keys="k")
hello.add_property("colour", "red")
receipt = producer.send(hello)
simple = consumer("g-plain", "plain")
[got] = take(simple, 1)
assert (got.body, got.message_id, got.tag, got.delivery_attempt) == (b"hello", receipt.message_id, "A", 1)
assert got.properties["colour"] == "red"
sys.stdout.write(f"id {receipt.message_id}\n")
ok("normal")

[got] = take(consumer("g-json", "json"), 1)
assert (got.body, got.tag, list(got.keys)) == (b"by JSON", "A", ["k"])
ok("json")

assert producer.send_async(message("plain", "later")).result(LONGEST_S).message_id
assert [one.body for one in take(simple, 1)] == [b"later"]
ok("async")

for number in range(3):
    producer.send(message("batch", str(number), message_group="one"))
several = consumer("g-batch", "batch")
while len(got := several.receive(32, 15)) == 0:
    pass
assert [one.body for one in got] == [b"0", b"1", b"2"]
for one in got:
    several.ack(one)
ok("batch")

large = "x" * (4 << 20)
producer.send(message("large", large))
assert [one.body.decode() for one in take(consumer("g-large", "large"), 1)] == [large]
ok("large")

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
while not (some := simple.receive(1, 60)):
    pass
simple.change_invisible_duration(some[0], 1)
[again] = take(simple, 1)
assert (again.body, again.delivery_attempt) == (b"longer", 2)
ok("change")

tagged = consumer("g-tag", "filtered", FilterExpression("B"))
for tag in "ABC":
    producer.send(message("filtered", tag, tag=tag))
assert [one.body for one in take(tagged, 1)] == [b"B"]
ok("filter")

dear = consumer("g-sql", "priced", FilterExpression("price > 10", FilterType.SQL))
for price in ("9", "11"):
    one = message("priced", price)
    one.add_property("price", price)
    producer.send(one)
assert [one.body for one in take(dear, 1)] == [b"11"]
ok("sql")

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

for priority in (1, 9, 5):
    producer.send(message("alarms", str(priority), priority=priority))
urgent = consumer("g-alarms", "alarms")
assert [(one.body, one.priority) for one in take(urgent, 3)] == [(b"9", 9), (b"5", 5), (b"1", 1)]
ok("priority")

lite = LiteSimpleConsumer("chats", CONFIGURATION, "g-chats", 2)
lite.startup()
subscribe(lite, "a")  # one letter, because the SDK subscribes to each letter of a name
for name in "ab":
    producer.send(message("chats", f"to {name}", lite_topic=name))
assert [(one.body, one.lite_topic) for one in take(lite, 1)] == [(b"to a", "a")]
ok("lite")

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

inside = Producer(INSIDE, ("spaced",))
inside.startup()
inside.send(message("spaced", "inside"))
spaced = consumer("g-spaced", "spaced", configuration=INSIDE)
assert [one.body for one in take(spaced, 1)] == [b"inside"]
ok("namespace")

stranger = Producer(STRANGER, ("plain",))
try:
    stranger.startup()
    stranger.send(message("plain", "forged"))
except Exception:  # noqa: BLE001 - the SDK's own, without the broker's reason
    ok("keys")

consumers = (spaced, ordered, retrying, simple, tagged, urgent, lite, dead, paid)
for client in (*consumers, inside, producer, transactional):
    client.shutdown()
ok("shutdown")
