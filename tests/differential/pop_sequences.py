"""Random sequences of RocketMQ 5 operations, generated from a seed.

Sequences avoid pops whose result is random in RocketMQ. A pop from several queues pops everything, as does a
pop after a group's second lapse, because retries then return in another order than the messages.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.op import Op
from tests.differential.pop_resets import reset
from tests.differential.values import FILTERS
from tests.doors.remoting.producing import BORN_MS, joined

ONE, FOUR, LATER = "One~", "Four~", "Later~"
"""Topics with their numbers of queues. The last one is for timers."""
TOPICS = {ONE: 1, FOUR: 4, LATER: 1}
GROUPS: dict[str, dict[str, str]] = {
    "All~": {},
    "A~": {"exp": "A"},
    "Sql~": {"exp": "a > 5", "expType": "SQL92"},
}
"""Groups with their filters."""
ORDERED = "Ordered~"
CLIENTS = ("one", "two", "three")
MOST = 28
"""Maximum number of messages of a topic, because a pop returns at most 32."""
SHORT_MS = 3_000
"""Invisible time within which every acknowledgement must happen, otherwise the play is cut short."""
ODD_POPS: Sequence[dict[str, Any]] = (
    {"topic": "nowhere~"},
    {"queueId": 4},
    {"queueId": -2},
    {"group": ""},
    {"group": "a b"},
    {"maxMsgNums": 33},
    {"bornTime": 1},
    {"exp": "a >", "expType": "SQL92"},
    {"exp": "a", "expType": "OTHER"},
    {"topic": "Closed~"},
    {"group": "Off~"},
)
ODD_PLACES: Sequence[dict[str, Any]] = (
    {"offset": 100},
    {"offset": -1},
    {"queueId": 4},
    {"queueId": -1},
    {"extraInfo": "x"},
    {"extraInfo": ""},
    {"extraInfo": "0 x 2 0 0 broker-a 0 0"},
    {"consumerGroup": "nobody~"},
)
ODD_TIMERS: Sequence[dict[str, str]] = (
    {"TIMER_DELAY_MS": "x"},
    {"TIMER_DELAY_SEC": "1.5"},
    {"TIMER_DELIVER_MS": ""},
    {"TIMER_DELAY_MS": "-5"},
    {"TIMER_DELIVER_MS": "1000"},
    {"TIMER_DELAY_SEC": "300000"},
    {"TIMER_DELAY_MS": "400", "DELAY": "1"},
    {"TIMER_DELAY_MS": "400", "DELAY": "0"},
    {"TIMER_DELAY_MS": "400", "TIMER_DELAY_SEC": "1"},
    {"TIMER_DELAY_MS": "400", "TIMER_OUT_MS": "5"},
)
ODD_RECALLS: Sequence[dict[str, str]] = (
    {"handle": "x"},
    {"handle": "eA=="},
    {"version": "v2"},
    {"broker": "other"},
    {"time": "1000"},
    {"time": "x"},
    {"key": "nobody"},
)


class _Maker:
    """Generates one sequence."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = Random(f"5 {seed} {number}")
        self.ops: list[Op] = []
        self._serial = 0
        self._sent: dict[str, list[str]] = {topic: [] for topic in TOPICS}
        self._timers: list[str] = []
        self._is_due_soon = False  # whether a timer was sent that falls due during the sequence
        self._lapses: dict[tuple[str, str], int] = {}
        self._groups = 0
        for topic, queues in TOPICS.items():
            self.put_topic(topic, queues)
        self.put_topic("Closed~", 1, perm="2")
        config = {"groupName": "Off~", "consumeEnable": False}
        self.add("change", code=200, ext={}, body=json.dumps(config))

    def add(self, op: str, /, **args: Any) -> None:
        self.ops.append(Op(op, args))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def topic(self) -> str:
        return self.random.choice((ONE, ONE, FOUR))

    def group(self) -> str:
        return self.random.choice(tuple(GROUPS))

    def sent(self, topic: str) -> str:
        """Return the number of a message that was probably sent."""
        known = self._sent[topic]
        return self.random.choice(known) if known and not self.chance(0.03) else "999"

    def some(self, topic: str) -> list[str]:
        known = self._sent[topic]
        return self.random.sample(known, self.random.randint(0, len(known)))

    def put_topic(self, topic: str, queues: int, perm: str = "6") -> None:
        ext = {"topic": topic, "defaultTopic": "TBW102", "perm": perm, "topicFilterType": "SINGLE_TAG"}
        ext |= {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
        self.add(
            "change",
            code=RequestCode.UPDATE_AND_CREATE_TOPIC,
            ext=ext | {"topicSysFlag": "0", "order": "false"},
        )

    # ── producing ──

    def send_args(self, topic: str, **more: str) -> dict[str, Any]:
        random = self.random
        self._serial += 1
        serial = str(self._serial)
        properties = {"UNIQ_KEY": f"7F0000010001{self._serial:020X}~"} | more
        if self.chance(0.7):
            properties["TAGS"] = random.choice(("A", "A", "B"))
        if self.chance(0.5):
            properties["a"] = random.choice(("5", "6", "7.5"))
        if self.chance(0.2):
            properties |= random.choice(
                ({"KEYS": "k1 k2"}, {"1ST_POP_TIME": "5"}, {"ü": "μ"}, {"__SHARDINGKEY": "s"})
            )
        return {
            "code": 310,
            "body": f"{serial}:{'x' * random.choice((0, 10, 1_000))}",
            "properties": joined(properties),
            "topic": topic,
            "queue_id": random.randrange(TOPICS[topic]),
            "sys_flag": random.choice((0, 0, 1)),
            "flag": random.choice((0, 7)),
            "born_timestamp": BORN_MS + self._serial,
        }

    def sent_to(self, topic: str, tag: str, a: str) -> dict[str, Any]:
        """Return the arguments of a send with this tag and property ``a``, on which the groups filter."""
        args = self.send_args(topic)
        self._sent[topic].append(str(self._serial))
        properties = {"UNIQ_KEY": f"7F0000010001{self._serial:020X}~", "TAGS": tag, "a": a}
        return args | {"properties": joined(properties)}

    def wanted(self, topic: str) -> dict[str, Any]:
        return self.sent_to(topic, "A", "6")

    def send(self) -> None:
        topic = self.topic()
        for _ in range(self.random.randint(1, 4)):
            if len(self._sent[topic]) < MOST:
                self.add("send", **self.send_args(topic))
                self._sent[topic].append(str(self._serial))

    def timer(self) -> None:
        random = self.random
        soon: Sequence[dict[str, str]] = (
            {"TIMER_DELAY_MS": "300"},
            {"TIMER_DELAY_MS": "1000"},
            {"TIMER_DELAY_SEC": "1"},
        )
        far = {"TIMER_DELAY_SEC": "3000"}
        delay = random.choice((*soon, far, far, *ODD_TIMERS))
        if delay is not far:
            if self._is_due_soon:
                self.add("collect", topic=LATER)  # timers that are due together arrive in random order
            self._is_due_soon = True
        self.add("send", **self.send_args(LATER, **delay))
        self._sent[LATER].append(str(self._serial))
        if delay is far:
            self._timers.append(str(self._serial))

    def recall(self) -> None:
        if self._timers:
            wrong = self.random.choice(ODD_RECALLS) if self.chance(0.4) else {}
            topic = ONE if self.chance(0.1) else "nowhere~" if self.chance(0.1) else LATER
            self.add("recall", serial=self.random.choice(self._timers), topic=topic, **wrong)

    # ── popping ──

    def pop_args(self, group: str, topic: str) -> dict[str, Any]:
        lapses = self._lapses.get((group, topic), 0)
        args = {
            "group": group,
            "topic": topic,
            "initMode": self.random.choice((0, 0, 1)),
            **GROUPS.get(group, {}),
        }
        if TOPICS[topic] == 1:
            limit = 32 if lapses > 1 else self.random.choice((32, 32, 1, 2, 3))
            return args | {"queueId": self.random.choice((-1, 0)), "maxMsgNums": limit}
        if lapses or self.chance(0.6):
            return args
        return args | {"queueId": self.random.randrange(4), "maxMsgNums": self.random.choice((32, 1, 2))}

    def pop(self) -> None:
        args = self.pop_args(self.group(), self.topic())
        if self.chance(0.08):
            args |= self.random.choice(ODD_POPS)
        self.add("pop", **args)

    def filtered_pop(self) -> None:
        """Pop with a filter, in a group of its own."""
        self._groups += 1
        kind = self.random.choice(("TAG", "SQL92", "SQL92", None))
        some = FILTERS if kind == "SQL92" else ("A", "A || B", "*", "", "||", "B||", " A ", "C")
        args = {"group": f"Filter{self._groups}~", "topic": self.topic(), "exp": self.random.choice(some)}
        self.add("pop", **args, expType=kind)

    def committed_pop(self) -> None:
        """Pop in a group of its own that has already pulled and committed."""
        self._groups += 1
        group, place = f"Puller{self._groups}~", {"topic": self.topic(), "queue_id": 0}
        self.add("pull", **place, at="min", offset=0, flags=4, consumerGroup=group, subscription="*")
        self.add("commit", group=group, **place, beyond=self.random.choice((0, 0, -1, -2)))
        self.add("committed", group=group, **place)
        self.add("notification", group=group, topic=place["topic"], queueId=0, pollTime=0)
        self.add("pop", group=group, topic=place["topic"], queueId=0)

    def held_pop(self) -> None:
        group, topic = self.group(), self.topic()
        if len(self._sent[topic]) > MOST:
            return
        self.add("pop", **self.pop_args(group, topic) | {"queueId": -1, "maxMsgNums": 32})
        sends = [self.wanted(topic)]
        if group != "All~" and self.chance(0.5):
            sends.insert(0, self.sent_to(topic, "B", "1"))
        self.add("held_pop", group=group, topic=topic, sends=sends, **GROUPS[group])

    def ack(self) -> None:
        group, topic = self.group(), self.topic()
        wrong = self.random.choice(ODD_PLACES) if self.chance(0.1) else {}
        which = self.random.choice((-1, -1, -1, -1, 0, -2))
        self.add("ack", group=group, topic=topic, serial=self.sent(topic), which=which, **wrong)

    def acks(self) -> None:
        group, topic = self.group(), self.topic()
        wrong = (
            self.random.choice(({"b": ""}, {"r": "9"}, {"t": "nowhere~"}, {"q": 9}))
            if self.chance(0.1)
            else {}
        )
        self.add("acks", group=group, topic=topic, serials=self.some(topic), **wrong)

    def invisible(self) -> None:
        group, topic = self.group(), self.topic()
        args: dict[str, Any] = {"ms": -1 if self.chance(0.03) else 600_000, "is_held": self.chance(0.9)}
        args |= self.random.choice(ODD_PLACES) if self.chance(0.1) else {}
        self.add("invisible", group=group, topic=topic, serial=self.sent(topic), **args)

    def lapse(self) -> None:
        group, topic = self.group(), self.topic()
        if sum(self._lapses.values()) == 3:
            return
        self._lapses[group, topic] = self._lapses.get((group, topic), 0) + 1
        if self.chance(0.5):
            self.add("lapse", group=group, topic=topic)
        else:
            args = self.pop_args(group, topic) | {"queueId": -1, "maxMsgNums": 32}
            self.add("pop_and_lapse", acked=self.some(topic), ms=SHORT_MS, **args)
        for look in (self.look, self.look, self.pop):
            look()

    def look(self) -> None:
        random = self.random
        group, topic = self.group(), self.topic()
        which = random.randrange(8)
        queue = random.choice((-1, -1, 0, 0, 3, 9))
        if which == 0:
            self.add(
                "notification", group=group, topic=topic, queueId=-1, pollTime=random.choice((0, 0, 200))
            )
        elif which == 1:
            self.add(
                "notification",
                group=random.choice((group, "new~")),
                topic=random.choice((topic, "nowhere~")),
                queueId=queue,
                pollTime=0,
            )
        elif which == 2:
            self.add("peek", group=group, topic=topic, queueId=-1, maxMsgNums=32)
        elif which == 3:
            self.add("polling", group=group, topic=random.choice((topic, topic, "nowhere~")), queue_id=queue)
        elif which == 4:
            self.add("committed", group=group, topic=topic, queue_id=random.randrange(TOPICS[topic]))
        elif which == 5:
            self.add("ask", code=RequestCode.GET_CONSUME_STATS, ext={"consumerGroup": group, "topic": topic})
        elif which == 6:
            self.add("ask", code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ext={"topic": topic})
        else:
            self.add(
                "ask", code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": random.choice((topic, "nowhere~"))}
            )

    def held_notification(self) -> None:
        group, topic = self.group(), self.topic()
        if len(self._sent[topic]) > MOST:
            return
        self.add("pop", **self.pop_args(group, topic) | {"queueId": -1, "maxMsgNums": 32})
        self.add("held_notification", group=group, topic=topic, queueId=-1, send=self.wanted(topic))

    def pull(self) -> None:
        topic, queue = self.topic(), 0
        at, offset = self.random.choice((("min", 0), ("max", -1), ("absolute", 0)))
        self.add(
            "pull",
            topic=topic,
            queue_id=queue,
            at=at,
            offset=offset,
            flags=4,
            consumerGroup="Puller~" if self.chance(0.5) else self.group(),
            subscription=self.random.choice(("*", "A")),
        )

    def reset(self) -> None:
        self._groups += 1
        self.ops += reset(self.random, self._groups, ONE, len(self._sent[ONE]))

    # ── in order ──

    def in_order(self) -> None:
        """An ordered consumer acks the first messages, or some messages, and then fails or leaves."""
        random, topic = self.random, self.topic()
        attempt = random.choice(("a", "b", "c"))
        if TOPICS[topic] == 1:
            args = {"maxMsgNums": random.choice((1, 2, 3, 32)), "queueId": random.choice((0, -1))}
        else:
            args = {}
        self.add("pop", group=ORDERED, topic=topic, order=True, attemptId=attempt, **args)
        serials = self._sent[topic][: random.randint(0, 5)]
        if self.chance(0.4):
            serials = self.some(topic)
        for serial in serials:
            self.add("ack", group=ORDERED, topic=topic, serial=serial)
        if self.chance(0.3):
            self.add("acks", group=ORDERED, topic=topic, serials=self._sent[topic])
        if self.chance(0.3):
            args = {"ms": random.choice((0, 600_000)), "is_held": True}
            self.add("invisible", group=ORDERED, topic=topic, serial=self.sent(topic), **args)
        if self.chance(0.4):
            self.add("lapse", group=ORDERED, topic=topic)
        if self.chance(0.3):
            self.add(
                "notification", group=ORDERED, topic=topic, queueId=-1, pollTime=0, order=True, attemptId="d"
            )
        if self.chance(0.3):
            queue = random.randrange(TOPICS[topic])
            self.add("committed", group=ORDERED, topic=topic, queue_id=queue)

    # ── dividing ──

    def member(self) -> None:
        client = self.random.choice(CLIENTS)
        groups: dict[str, Any] = {self.group(): {"topics": {topic: {} for topic in (ONE, FOUR)}}}
        self.add("heartbeat", client=client, client_id=f"id-{client}", groups=groups, producers=[])

    def leave(self) -> None:
        self.add("leave", client=self.random.choice(CLIENTS[1:]))

    def mode(self) -> None:
        body = {
            "topic": self.random.choice((ONE, FOUR, FOUR, "nowhere~")),
            "consumerGroup": self.group(),
            "mode": "OTHER" if self.chance(0.05) else self.random.choice(("POP", "POP", "PULL")),
            "popShareQueueNum": self.random.choice((-1, 0, 1, 1, 2)),
        }
        self.add("change", code=RequestCode.SET_MESSAGE_REQUEST_MODE, ext={}, body=json.dumps(body))

    def assignment(self) -> None:
        random = self.random
        for client in CLIENTS:
            self.add(
                "assignment",
                topic=random.choice((ONE, FOUR, FOUR, FOUR, "nowhere~")),
                consumerGroup=self.group(),
                clientId=f"id-{client}",
                messageModel="EVERYBODY"
                if self.chance(0.03)
                else random.choice(("CLUSTERING", "CLUSTERING", "BROADCASTING")),
                strategyName=random.choice(("AVG", "AVG", "AVG_BY_CIRCLE", "OTHER")),
            )


_KINDS: Sequence[tuple[Callable[[_Maker], None], float]] = (
    (_Maker.send, 20),
    (_Maker.timer, 5),
    (_Maker.recall, 4),
    (_Maker.pop, 20),
    (_Maker.filtered_pop, 4),
    (_Maker.committed_pop, 2),
    (_Maker.held_pop, 4),
    (_Maker.ack, 20),
    (_Maker.acks, 8),
    (_Maker.invisible, 6),
    (_Maker.lapse, 6),
    (_Maker.look, 12),
    (_Maker.held_notification, 3),
    (_Maker.pull, 3),
    (_Maker.reset, 4),
    (_Maker.in_order, 8),
    (_Maker.member, 3),
    (_Maker.leave, 1),
    (_Maker.mode, 3),
    (_Maker.assignment, 4),
)


def pop_sequence(seed: int, number: int) -> list[Op]:
    """Return the sequence with this number, which ends with pops of everything."""
    maker = _Maker(seed, number)
    for topic in (ONE, FOUR):
        maker.add("send", **maker.wanted(topic))
    kinds, weights = zip(*_KINDS, strict=True)
    for kind in maker.random.choices(kinds, weights, k=maker.random.randint(10, 40)):
        kind(maker)
    for topic in TOPICS:
        maker.add("collect", topic=topic)
        for group, wanted in GROUPS.items():
            maker.add("pop", group=group, topic=topic, **wanted)
    return maker.ops
