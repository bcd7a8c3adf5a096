"""Random sequences of gRPC operations, generated from a seed.

Most sequences use topics with one queue, because RocketMQ picks the next of several queues at random.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.grpc_values import (
    BATCH,
    DELAY,
    FIFO,
    FOUR,
    GROUPS,
    IN_ORDER,
    MOST,
    NORMAL,
    NOT_MADE,
    ODD_DURATIONS_MS,
    ODD_HANDLES,
    ODD_RECEIVES,
    ODD_SENDS,
    ONE,
    ORDER,
    PRODUCER,
    PUSH_CONSUMER,
    SIMPLE_CONSUMER,
    TOPICS,
    TRANSACTION,
    UNDERTAKER,
    UNSERVED,
)
from tests.differential.op import Op


class _Maker:
    """Generates one sequence."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = Random(f"grpc {seed} {number}")
        self.ops: list[Op] = []
        self._serial = 0
        self._sent: dict[str, list[str]] = {topic: [] for topic in TOPICS}
        self._delayed: list[tuple[str, str]] = []
        for topic, (queues, kind, perm) in TOPICS.items():
            self._put_topic(topic, queues, kind, perm)
        for group in (*GROUPS, UNDERTAKER, "Odd~"):
            self._put_group(group)
        self._put_group(IN_ORDER, consumeMessageOrderly=True)
        self._put_group("Off~", consumeEnable=False)
        publishing = {"topics": [{"name": ONE}, {"name": "Half~"}], "max_body_size": 5}
        self.add("settings", speaker="maker", client_type=PRODUCER, publishing=publishing)
        for group, (_, tags) in GROUPS.items():
            self._consume(group, tags)
        self._consume(IN_ORDER, None)
        self._consume(UNDERTAKER, None)

    def add(self, op: str, /, **args: Any) -> None:
        self.ops.append(Op(op, args))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def _put_topic(self, topic: str, queues: int, kind: str, perm: str) -> None:
        ext = {"topic": topic, "defaultTopic": "TBW102", "perm": perm, "topicFilterType": "SINGLE_TAG"}
        ext |= {"readQueueNums": str(queues), "writeQueueNums": str(queues), "topicSysFlag": "0"}
        ext |= {"order": "false", "attributes": f"+message.type={kind}"}
        self.add("change", code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ext)

    def _put_group(self, group: str, **config: bool) -> None:
        """Create a group, as 5.5.0's proxy refuses consumers of unknown groups."""
        body = json.dumps({"groupName": group, **config})
        self.add("change", code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ext={}, body=body)

    def _consume(self, group: str, tags: Sequence[str] | None) -> None:
        entry = {"topic": {"name": ONE}, "expression": {"type": 1, "expression": "*"}}
        subscription = {"group": {"name": group}, "subscriptions": [entry]}
        kind = self.random.choice((PUSH_CONSUMER, SIMPLE_CONSUMER))
        self.add("settings", speaker=group, tags=tags, client_type=kind, subscription=subscription)

    def group(self) -> str:
        return self.random.choice(tuple(GROUPS))

    def topic(self) -> str:
        return self.random.choice((ONE, ONE, ONE, FOUR, "Plain~", "Late~", BATCH))

    def some(self, topic: str) -> list[str]:
        known = self._sent[topic]
        return self.random.sample(known, self.random.randint(min(1, len(known)), len(known)))

    def one(self, topic: str) -> str:
        return self.random.choice(self._sent[topic] or ["999"])

    # ── producing ──

    def message(self, topic: str) -> dict[str, Any]:
        random = self.random
        self._serial += 1
        message: dict[str, Any] = {"serial": str(self._serial), "topic": topic}
        if self.chance(0.8):
            message["tag"] = random.choice("ABC")
        if self.chance(0.3):
            message["keys"] = random.choice((["k1"], ["k1", "k2"], ["with space"]))
        if self.chance(0.3):
            message["properties"] = random.choice(({"a": "5"}, {"ü": "μ x"}, {"TRACE_ID": "1"}))
        if self.chance(0.2):
            message["trace_context"] = "00-1-2-01"
        if self.chance(0.2):
            message["size"] = random.choice((1_000, 100_000))
        if self.chance(0.1):
            message["delivery_attempt"] = 3
        if self.chance(0.1):
            message["message_type"] = random.choice((NORMAL, FIFO, DELAY))
        return message

    def send(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            topic = self.topic()
            if len(self._sent[topic]) >= MOST:
                continue
            if topic == BATCH:
                continue
            message = self.message(topic)
            if topic == "Late~" or self.chance(0.15):
                message["delay_s"] = self.random.choice((-5, 0.3, 1, 2, 3_600, 80_000))
                self._delayed.append((message["serial"], topic))
            if self.chance(0.1):
                message["message_group"] = self.random.choice(("g1", "g2", "ü"))
            self.add("produce", messages=[message])
            self._sent[topic].append(message["serial"])

    def batch(self) -> None:
        first = self.message(BATCH)
        others = [self.message(BATCH) for _ in range(self.random.randint(1, 2))]
        messages = [first, *({**first, "serial": other["serial"]} for other in others)]
        if self.chance(0.2):
            messages[-1]["topic"] = FOUR
        elif self.chance(0.2):
            messages[-1]["tag"] = "A|B"
        elif self.chance(0.1):
            messages = []
        self.add("produce", messages=messages)
        self._sent[BATCH] += [message["serial"] for message in messages if message["topic"] == BATCH]

    def odd_send(self) -> None:
        message = {**self.message(ONE), **self.random.choice(ODD_SENDS)}
        self.add("produce", messages=[message])

    def wrong_type(self) -> None:
        topic = self.random.choice(("Plain~", "Late~", "Half~", ORDER))
        kind = self.random.choice(
            ({}, {"delay_s": 3_600}, {"message_group": "g1"}, {"message_type": TRANSACTION})
        )
        if (topic, kind) != ("Half~", {"message_type": TRANSACTION}):  # it would stay undecided
            message = {**self.message(topic), **kind}
            self.add("produce", messages=[message])
            self._sent[topic].append(message["serial"])

    def recall(self) -> None:
        """Recall a delayed message; another delayed message follows it."""
        topic, delay_s = self.random.choice((ONE, "Late~")), self.random.choice((8, 3_600))
        serials = []
        for late_s in (delay_s, delay_s + 1):
            message = {**self.message(topic), "delay_s": late_s}
            message.pop("message_type", None)
            serials.append(message["serial"])
            self._sent[topic].append(message["serial"])
            self.add("produce", messages=[message])
        self.add("cancel", serial=serials[0], topic=topic)
        if self.chance(0.5):
            odd: Sequence[dict[str, Any]] = (
                {"topic": topic},
                {"topic": topic, "handle": "x"},
                {"topic": topic, "handle": ""},
                {"topic": "Plain~"},
                {"topic": "Order~"},
                {"topic": "nowhere~"},
                {"topic": "a b"},
                {"topic": FOUR},
            )
            self.add("cancel", serial=serials[0], **self.random.choice(odd))

    def transaction(self) -> None:
        topic = self.random.choice((ONE, "Half~"))
        message = {**self.message(topic), "message_type": TRANSACTION}
        serial = message["serial"]
        self._sent[topic].append(serial)
        self.add("produce", messages=[message])
        if self.chance(0.3):
            odd: Sequence[dict[str, Any]] = (
                {"transaction_id": ""},
                {"transaction_id": " "},
                {"transaction_id": "nobody"},
                {"topic": "a b"},
            )
            self.add(
                "decide", **{"serial": serial, "topic": topic, "resolution": 1, **self.random.choice(odd)}
            )
        self.add("decide", serial=serial, topic=topic, resolution=self.random.choice((1, 1, 2)))
        if self.chance(0.3):
            self.add("decide", serial=serial, topic=topic, resolution=self.random.choice((0, 1, 2)))

    def orphan(self) -> None:
        """Send a half message, and wait for the check-back."""
        message = {**self.message("Half~"), "message_type": TRANSACTION}
        message["orphaned_transaction_recovery_duration"] = {"seconds": 1}
        self.add("produce", messages=[message])
        self.add("orphan", serial=message["serial"], resolution=self.random.choice((1, 2)))
        self._sent["Half~"].append(message["serial"])

    # ── consuming ──

    def consume(self) -> None:
        """Receive messages, then settle, hide or forward some."""
        group, topic = self.group(), self.topic()
        given = {"group": group, "topic": topic}
        self.receive(group, topic)
        for kind in self.random.choices(
            (self._settle, self._odd_settle, self._hide, self._odd_hide, self._forward),
            (4, 3, 3, 1, 1 if topic in (ONE, "Plain~") else 0),
            k=self.random.randint(1, 4),
        ):
            if self._sent[topic]:
                kind(given)

    def receive(self, group: str, topic: str) -> None:
        wanted = GROUPS[group][0]
        more = {"auto_renew": True} if self.chance(0.2) else {}
        size = self.random.choice((32, 32, 32, 1, 3))
        self.add("receive", group=group, topic=topic, batch_size=size, **wanted, **more)

    def odd_receive(self) -> None:
        self.add("odd_receive", **{"group": "Odd~", "topic": ONE, **self.random.choice(ODD_RECEIVES)})

    def lapse(self) -> None:
        message = self.message("Lapse~")
        group = f"Lapse{message['serial']}~"
        self._put_group(group)
        self.add("produce", messages=[message])
        self.add("lapse", group=group, topic="Lapse~", serial=message["serial"])

    def _settle(self, given: dict[str, Any]) -> None:
        self.add("settle", **given, serials=self.some(given["topic"]))

    def _odd_settle(self, given: dict[str, Any]) -> None:
        group, serials = given["group"], self.some(given["topic"])[:2]
        odd: Sequence[dict[str, Any]] = (
            {"handle": self.random.choice(ODD_HANDLES)},
            {"of": self.group()},
            {"group": "nobody~", "of": group},
            {"group": "a b", "of": group},
            {"topic": "a b", "of": group},
            {"topic": "nowhere~"},
            {"which": 0},
            {"serials": []},
        )
        self.add("settle", **{**given, "serials": serials, **self.random.choice(odd)})

    def _hide(self, given: dict[str, Any]) -> None:
        for serial in self.some(given["topic"])[:3]:
            ms = self.random.choice((0, 500, 1_000, 600_000, *ODD_DURATIONS_MS))
            self.add("hide", **given, serial=serial, ms=ms)
        self.receive(given["group"], given["topic"])  # so that no later operation meets an expired handle

    def _odd_hide(self, given: dict[str, Any]) -> None:
        odd: Sequence[dict[str, Any]] = (
            {"handle": self.random.choice(ODD_HANDLES)},
            {"group": "a b", "of": given["group"]},
            {"topic": "a b"},
        )
        hide = {**given, "serial": self.one(given["topic"]), "ms": 600_000}
        self.add("hide", **{**hide, **self.random.choice(odd)})

    def _forward(self, given: dict[str, Any]) -> None:
        handle = {"handle": self.random.choice(ODD_HANDLES)} if self.chance(0.2) else {}
        for serial in self.some(given["topic"])[:2]:
            self.add("forward", **given, serial=serial, **handle)

    def in_order(self) -> None:
        for _ in range(self.random.randint(2, 6)):
            message = self.message(ORDER)
            message["message_group"] = self.random.choice(("g1", "g2", "g3", "ü"))
            message.pop("message_type", None)
            # Upstream pops 256 KiB of a queue, and in order the next ones only after these are acknowledged.
            message["size"] = min(message.get("size", 0), 10_000)
            self.add("produce", messages=[message])
        self.add(
            "in_order",
            group=IN_ORDER,
            topic=ORDER,
            acked=self.random.randint(0, 3),
            ms=self.random.choice((0, 500, 1_000)),
        )

    # ── the rest ──

    def route(self) -> None:
        odd = ("", "a b", "nowhere~", "TBW102", "t" * 128, "SCHEDULE_TOPIC_XXXX")
        topic = self.random.choice((*TOPICS, *TOPICS, *odd))
        self.add("route", topic=topic, scheme=self.random.choice((1, 1, 3)))
        group = self.random.choice((*GROUPS, IN_ORDER, "new~", "", "a b", "CID_RMQ_SYS_x"))
        self.add("assigned", topic=topic, group=group)

    def beat(self) -> None:
        group = self.group()
        speaker, kind, name = self.random.choice(
            (
                ("maker", PRODUCER, None),
                (group, PUSH_CONSUMER, group),
                (group, SIMPLE_CONSUMER, group),
                (group, PUSH_CONSUMER, "a b"),
                ("stranger~", PUSH_CONSUMER, group),
            )
        )
        self.add("beat", speaker=speaker, client_type=kind, group=name)

    def visit(self) -> None:
        """A client sends odd settings, or disconnects."""
        name = f"visitor{len(self.ops)}~"
        group, topics = {"name": self.group()}, [{"topic": {"name": ONE}}]
        odd: Sequence[dict[str, Any]] = (
            {},
            {"client_type": PRODUCER, "publishing": {"topics": [{"name": "a b"}]}},
            {"client_type": PRODUCER, "publishing": {"topics": []}},
            {"client_type": PUSH_CONSUMER, "subscription": {"group": {"name": "a b"}}},
            {"client_type": PUSH_CONSUMER, "subscription": {"group": group, "subscriptions": topics}},
            {
                "client_type": SIMPLE_CONSUMER,
                "request_timeout": {"seconds": 3},
                "subscription": {"group": group, "long_polling_timeout": {"seconds": 7}},
            },
            {"client_type": PUSH_CONSUMER, "subscription": {"group": {"name": IN_ORDER}}},
            {"client_type": PUSH_CONSUMER, "subscription": {"group": {"name": NOT_MADE}}},
        )
        settings = self.random.choice(odd)
        self.add("settings", speaker=name, **settings)
        if "publishing" in settings:
            self.add("terminate", speaker=name, group=None)
        elif settings.get("subscription", {}).get("group", {}).get("name") == group["name"]:
            self.add("terminate", speaker=name, group=self.random.choice((group["name"], "a b")))

    def unserved(self) -> None:
        self.add("unserved", rpc=self.random.choice(UNSERVED))

    def without_id(self) -> None:
        self.add("without_id", rpc=self.random.choice(("Heartbeat", "QueryRoute", "SendMessage")))


_KINDS: Sequence[tuple[int, Callable[[_Maker], None]]] = (
    (8, _Maker.send),
    (2, _Maker.batch),
    (4, _Maker.odd_send),
    (2, _Maker.wrong_type),
    (1, _Maker.recall),
    (2, _Maker.transaction),
    (10, _Maker.consume),
    (2, _Maker.odd_receive),
    (1, _Maker.lapse),
    (1, _Maker.orphan),
    (1, _Maker.in_order),
    (2, _Maker.route),
    (1, _Maker.beat),
    (1, _Maker.visit),
    (1, _Maker.unserved),
    (1, _Maker.without_id),
)


def grpc_sequence(seed: int, number: int) -> list[Op]:
    """Return the sequence with this number."""
    maker = _Maker(seed, number)
    weights, kinds = zip(*_KINDS, strict=True)
    for kind in maker.random.choices(kinds, weights, k=maker.random.randint(12, 30)):
        kind(maker)
    for topic in (ONE, FOUR, "Plain~", "Late~", "Half~", BATCH):
        for group, (wanted, _) in GROUPS.items():
            maker.add("receive", group=group, topic=topic, **wanted)
    for group in {op.args["group"]: None for op in maker.ops if op.name == "forward"}:
        maker.add("receive", group="Undertaker~", topic=f"%DLQ%{group}")
    return maker.ops
