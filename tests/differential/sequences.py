"""Random sequences of operations, generated from a seed."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from mocketmq.message.names import CLUSTER, DLQ_PREFIX, RETRY_PREFIX
from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.op import Op
from tests.differential.pairs import Pairing
from tests.differential.values import (
    CLIENTS,
    FILTERS,
    GROUPS,
    REGISTERED,
    SUBSCRIPTIONS,
    TOPICS,
)


class _Maker(Pairing):
    """Generates one sequence."""

    def leave_some_open(self) -> None:
        """Add half messages, pulls of what became visible, and possibly a transaction end that comes late."""
        for _ in range(self.random.randint(2, 6)):
            self.leave_open()
        for serial, _, is_given_up in self._left_open:
            self.add("asked", serial=serial, topic="T5~", is_given_up=is_given_up)
        self.add("collect", topic="T5~")
        self.offsets()
        serial, group, _ = self.random.choice(self._left_open)
        self.add("end", serial=serial, how=self.random.choice((8, 12)), group=group, is_late=True)
        self.add("collect", topic="T5~")

    # ── consuming ──

    def pull(self) -> None:
        random = self.random
        at, offset = random.choice(
            (
                *(("min", n) for n in (-1, 0, 0, 0, 1, 2)),
                *(("max", n) for n in (-2, -1, 0, 1, 7)),
                ("absolute", 0),
            )
        )
        expression = random.choice(
            ("*", "", "A", "A || B", "Aa", "A||", "||", "  B ", "x||y", "tag with space", "ü")
        )
        flags = random.choice((4, 4, 4, 5, 0))
        fields: dict[str, Any] = {
            "consumerGroup": self.group(),
            "maxMsgNums": random.choice((32, 32, 1, 2, 5)),
        }
        if flags & 4:
            fields["subscription"] = expression
            fields["expressionType"] = random.choice((None, "TAG", "TAG"))
        else:
            fields["subVersion"] = random.choice((0, 0, self._version, self._version + 1))
        if flags & 1:
            fields["commitOffset"] = 0
        if flags & 4 and self.chance(0.2):
            fields |= {"subscription": random.choice(FILTERS), "expressionType": "SQL92"}
        if self.chance(0.05):
            fields |= random.choice(
                (
                    {"consumerGroup": ""},
                    {"consumerGroup": "a b"},
                    {"maxMsgNums": 0},
                    {"maxMsgNums": -1},
                    {"subVersion": None},
                    {"topic": "nowhere~"},
                    {"topic": "a b"},
                    {"expressionType": "OTHER", "subscription": "a"},
                )
            )
        if fields.get("expressionType") in ("SQL92", "OTHER"):
            flags &= ~1  # RocketMQ would commit for filters that mocketmq refuses
            fields.pop("commitOffset", None)
        topic = fields.pop("topic", None) or self.some_topic()
        self.add("pull", topic=topic, queue_id=self.queue(), at=at, offset=offset, flags=flags, **fields)

    def filters(self) -> None:
        """Add messages with properties, and pulls with their own filter or the filter of the heartbeat."""
        random, topic, group = self.random, self.topic(), self.group()
        for _ in range(random.randint(1, 4)):
            serial = self.serial()
            self._sent.append(serial)
            properties = self.properties(serial, delay=0.1)
            self.add("send", **self.send_args(serial, topic, queue_id=0, properties=properties))
        self.add("collect", topic=topic)
        for expression in random.sample(FILTERS, 4):
            self.add(
                "pull",
                topic=topic,
                queue_id=0,
                at="min",
                offset=0,
                flags=4,
                consumerGroup=group,
                subscription=expression,
                expressionType="SQL92",
            )
        self._version += 1
        subscription = {
            "expression": random.choice(FILTERS),
            "expressionType": "SQL92",
            "version": self._version,
        }
        groups = {group: {"topics": {topic: subscription}}}
        self.add("heartbeat", client="one", client_id="id-one", groups=groups, producers=[])
        for version in (1, self._version + 1):
            place = {"topic": topic, "queue_id": 0, "at": "min", "offset": 0}
            self.add("pull", **place, flags=0, consumerGroup=group, subVersion=version)

    def large(self) -> None:
        """Add more bytes or messages than one pull may return."""
        random = self.random
        place: dict[str, Any] = {"topic": "T4~", "queue_id": 0}
        for _ in range(random.randint(2, 4)):
            serial = self.serial()
            args = self.send_args(serial, **place, body=f"{serial}:{random.choice((60, 90, 200))}000")
            self.add("send", **args | {"properties": self.properties(serial, delay=0)})
        serials = [self.serial() for _ in range(40)]
        args = self.send_args(serials[0], **place, properties="") | {"sys_flag": 0, "batch": True}
        del args["code"], args["body"]
        messages = [(serial, self.properties(serial, delay=0)) for serial in serials]
        self.add("send_batch", messages=messages, **args)
        for at, offset in (("min", 0), ("min", 1), ("max", -40), ("max", -35)):
            limit = {"maxMsgNums": random.choice((31, 32, 33, 1_024))}
            group = {"consumerGroup": "G0~", "subscription": "*"}
            self.add("pull", **place, at=at, offset=offset, flags=4, **group, **limit)

    def some_topic(self) -> str:
        return self.random.choice((*TOPICS, *TOPICS, RETRY_PREFIX + self.group()))

    def held(self) -> None:
        serial, topic = self.serial(), self.topic()
        self._sent.append(serial)
        send = self.send_args(serial, topic, properties=self.properties(serial, delay=0))
        self.add("send", **{**send, "body": "0"})  # otherwise the topic may not exist yet
        self.add("collect", topic=topic)  # otherwise a delayed message could wake the long poll
        self.add(
            "held",
            topic=topic,
            queue_id=send["queue_id"],
            send=send,
            subscription=self.random.choice(("*", "*", "A")),
        )

    def offsets(self) -> None:
        random = self.random
        topic, group, queue = self.some_topic(), self.group(), self.queue()
        which = random.randrange(6)
        if which == 0:
            self.add("committed", group=group, topic=topic, queue_id=queue)
        elif which == 1:
            beyond = random.choice((0, 0, 0, -1, -1, -2, 1))
            self.add("collect", topic=topic)
            self.add("commit", group=group, topic=topic, queue_id=queue, beyond=beyond)
            self.add("committed", group=group, topic=topic, queue_id=queue, beyond=beyond)
        elif which in (2, 3):
            code = RequestCode.GET_MAX_OFFSET if which == 2 else RequestCode.GET_MIN_OFFSET
            self.add("offset", code=int(code), topic=topic, queue_id=queue)
        elif which == 4:
            self.add("earliest", topic=topic, queue_id=queue)
        else:
            self.add("collect", topic=topic)
            self.add("search", serial=self.sent(), shift_ms=random.choice((0, 0, -100_000, 100_000)))

    # ── membership ──

    def heartbeat(self) -> None:
        random = self.random
        self._version += 1
        client = random.choice(CLIENTS)
        groups = {}
        for group in random.sample(GROUPS, random.randint(0, 2)):
            topics = {
                topic: {**random.choice(SUBSCRIPTIONS), "version": self._version}
                for topic in random.sample(TOPICS, random.randint(1, 2))
            }
            groups[group] = {"topics": topics}
        producers = random.sample(["makers~", *GROUPS], random.randint(0, 2))
        self.add("heartbeat", client=client, client_id=f"id-{client}", groups=groups, producers=producers)
        self.add("pushes")

    def unregister(self) -> None:
        client = self.random.choice(CLIENTS)
        if self.chance(0.3):
            self.add("leave", client=client)
        else:
            ext = {self.random.choice(("consumerGroup", "producerGroup")): self.group()}
            self.add("unregister", client=client, clientID=f"id-{client}", **ext)
        self.add("pushes")

    def members(self) -> None:
        self.add("ask", code=38, ext={"consumerGroup": self.random.choice((*GROUPS, "nobody~"))})

    def lock(self) -> None:
        random = self.random
        queues = [(self.topic(), random.randrange(4)) for _ in range(random.randint(0, 3))]
        self.add(
            "lock",
            code=random.choice((41, 41, 42)),
            client_id=random.choice(("id-one", "id-two")),
            group=self.group(),
            queues=queues,
        )

    def check(self) -> None:
        expression, kind = self.random.choice(
            (
                ("*", "TAG"),
                ("A || B", "TAG"),
                ("a > 5", "SQL92"),
                ("a >", "SQL92"),
                ("a", "OTHER"),
                ("", "TAG"),
            )
        )
        self.add(
            "check",
            group=self.group(),
            client_id="id-one",
            topic="T0~",
            expression=expression,
            expressionType=kind,
        )

    # ── retries, looking up, admin ──

    def back(self) -> None:
        serial, topic = self.sent(), self.some_topic()
        self.add("collect", topic=topic)
        self.add(
            "back",
            serial=serial,
            group=self.random.choice((*GROUPS, *GROUPS, "new~")),
            level=self.random.choice((0, 0, 1, 2, 3, 4, 9, -1)),
            most=self.random.choice((None, None, 16, 0, 1)),
            version=self.random.choice((409, 409, 120)),
        )

    def look_up(self) -> None:
        random = self.random
        topic = self.some_topic()
        if self.chance(0.5):
            self.add("collect", topic=topic)
            self.add("view", serial=self.sent(), shift=0 if self.chance(0.8) else 1 << 40)
            return
        is_unique = self.chance(0.5)
        serial = random.choice(self._sent) if self._sent else "1"
        key = f"7F0000010001{int(serial):020X}~" if is_unique else random.choice(("k1", "k2", "none", "a#b"))
        self.add("collect", topic=topic)
        self.add(
            "query",
            topic=topic,
            key=key,
            number=random.choice((32, 1, 2, 100)),
            is_unique=is_unique,
            before_ms=random.choice((-1_800_000, -1_800_000, 3_600_000)),
        )

    def route(self) -> None:
        name = self.random.choice(
            (*TOPICS, *TOPICS, *REGISTERED, "nowhere~", "", "a b", RETRY_PREFIX + "none~")
        )
        self.add("ask", code=105, ext={"topic": name}, client="ns")

    def admin(self) -> None:
        which = self.random.randrange(13)
        topic, group = self.some_topic(), self.group()
        if which == 0:
            self.add("collect", topic=topic)
            self.add("ask", code=202, ext={"topic": self.random.choice((topic, topic, "nowhere~"))})
        elif which == 1:
            self.add("ask", code=203, ext={"consumerGroup": group})
        elif which == 2:
            self.add("ask", code=204, ext={"producerGroup": self.random.choice((group, "makers~"))})
        elif which == 3:
            self.add("collect", topic=topic)
            self.add(
                "ask",
                code=208,
                ext={"consumerGroup": group, **({"topic": topic} if self.chance(0.5) else {})},
            )
        elif which == 4:
            self.add("table", code=21, ext={}, name="topicConfigTable")
        elif which == 5:
            self.add("table", code=201, ext={}, name="subscriptionGroupTable")
        elif which == 6:
            self.add("table", code=206, ext={}, name="topicList", client="ns")
        elif which == 7:
            self.add("ask", code=106, ext={}, client="ns")
        elif which == 8:
            self.add(
                "ask", code=224, ext={"cluster": self.random.choice(("nowhere", "another"))}, client="ns"
            )
        elif which == 9:
            self.add("ask", code=303, ext={"topic": topic, "group": group})
        elif which == 10:
            self.add("ask", code=304, ext={}, client="ns")
        elif which == 11:
            self.add("ask", code=305, ext={})
        else:
            self.add("ask", code=300, ext={"topic": topic})

    def put_topic(self, topic: str | None = None) -> None:
        random = self.random
        names = (*TOPICS, *TOPICS, *REGISTERED, "new~", "a b", "", "t" * 128)
        ext = {
            "topic": topic or random.choice(names),
            "defaultTopic": "TBW102",
            "readQueueNums": random.choice(("1", "4", "8", "8")),
            "writeQueueNums": random.choice(("1", "4", "8", "8")),
            "perm": random.choice(("6", "6", "6", "4", "2", "0", "7")),
            "topicFilterType": random.choice(("SINGLE_TAG", "SINGLE_TAG", "MULTI_TAG")),
            "topicSysFlag": random.choice(("0", "0", "1")),
            "order": random.choice(("false", "true")),
        }
        self.add("change", code=17, ext=ext)
        self.add("ask", code=105, ext={"topic": ext["topic"]}, client="ns")

    def put_group(self) -> None:
        random, group = self.random, self.group()
        config: dict[str, Any] = {
            "groupName": group,
            "consumeEnable": self.chance(0.8),
            "consumeBroadcastEnable": self.chance(0.8),
            "retryQueueNums": 1,
            "retryMaxTimes": random.choice((16, 3, 0)),
            "notifyConsumerIdsChangedEnable": self.chance(0.8),
        }
        for name in random.sample(sorted(config), random.randint(0, 3)):
            if name != "groupName":
                del config[name]
        self.add("change", code=200, ext={}, body=json.dumps(config))
        self.add("table", code=201, ext={}, name="subscriptionGroupTable")

    def delete_group(self) -> None:
        random, group = self.random, self.group()
        ext = {"groupName": group}
        if self.chance(0.5):
            ext["removeOffset"] = ext["cleanOffset"] = random.choice(("true", "false"))  # of 4.x and of 5.x
        self.add("change", code=207, ext=ext)
        self.add("table", code=201, ext={}, name="subscriptionGroupTable")
        topics = random.sample((*TOPICS, RETRY_PREFIX + group), 2)
        for topic in topics:
            self.add("committed", group=group, topic=topic, queue_id=self.queue())
            self.add("ask", code=300, ext={"topic": topic})
        self.add("ask", code=208, ext={"consumerGroup": group})

    def delete_topic(self) -> None:
        """Delete a topic in broker and name server, as administrators do, then recreate and use it."""
        topic, group = self.topic(), self.group()
        self.add("collect", topic=topic)
        self.add("change", code=215, ext={"topic": topic})
        self.add("ask", code=105, ext={"topic": topic}, client="ns", is_deleted=True)
        self.add("change", code=216, ext={"topic": topic}, client="ns")
        self.add("view", serial=self.sent(), shift=0, is_deleted=True)
        self.about_deleted(topic, group)
        if self.chance(0.5):
            self.put_topic(topic)
        send = self.send_args(self.serial(), topic, queue_id=0)
        self.add(
            "send",
            **send | {"properties": "", "default_topic": self.random.choice(("TBW102", CLUSTER, "no"))},
        )
        self.add("made_again", topic=topic)
        for _ in range(self.random.randint(1, 6)):
            self.about_made_again(topic, group)

    def about_deleted(self, topic: str, group: str) -> None:
        """Add operations on the topic while it is deleted."""
        place = {"topic": topic, "queue_id": self.queue()}
        looks: Sequence[Callable[[], None]] = (
            lambda: self.add("ask", code=105, ext={"topic": topic}, client="ns"),
            lambda: self.add("table", code=206, ext={}, name="topicList", client="ns"),
            lambda: self.add("table", code=21, ext={}, name="topicConfigTable"),
            lambda: self.add("offset", code=self.random.choice((30, 31)), **place),
            lambda: self.add("earliest", **place),
            lambda: self.add("committed", group=group, **place, is_deleted=True),
            lambda: self.add("ask", code=300, ext={"topic": topic}, is_deleted=True),
            lambda: self.add("ask", code=202, ext={"topic": topic}),
            lambda: self.add("ask", code=208, ext={"consumerGroup": group, "topic": topic}),
            lambda: self.add("ask", code=303, ext={"topic": topic, "group": group}),
            lambda: self.add("lock", code=41, client_id="id-one", group=group, queues=[(topic, 0)]),
            lambda: self.add(
                "pull", **place, at="absolute", offset=0, flags=4, consumerGroup=group, subscription="*"
            ),
            lambda: self.add("send", **self.send_args(self.serial(), topic, default_topic="nothing")),
            lambda: self.add("change", code=215, ext={"topic": topic}),
            self.heartbeat,
        )
        for look in self.random.sample(looks, self.random.randint(2, 8)):
            look()

    def about_made_again(self, topic: str, group: str) -> None:
        """Add one operation on the recreated topic, with offsets from the start of its queues."""
        random = self.random
        which = random.randrange(5)
        if which == 0:
            send = self.send_args(self.serial(), topic, properties="")
            self.add("send", **send)
        elif which == 1:
            at, offset = random.choice((("min", 0), ("min", 1), ("max", -1), ("max", 0)))
            fields = {"consumerGroup": group, "subscription": random.choice(("*", "A"))}
            self.add("pull", topic=topic, queue_id=0, at=at, offset=offset, flags=4, **fields)
        elif which == 2:
            self.add("offset", code=random.choice((30, 31)), topic=topic, queue_id=random.randrange(4))
        elif which == 3:
            self.add("collect", topic=topic)
            beyond = random.choice((0, -1))
            self.add("commit", group=group, topic=topic, queue_id=0, beyond=beyond)
            self.add("committed", group=group, topic=topic, queue_id=0)
        else:
            self.add("collect", topic=topic)

    def delete_oddly(self) -> None:
        """Add deletions of topics and groups that do not exist or must not be deleted."""
        names = (*REGISTERED, "nowhere~", "", "a b", "t" * 128, DLQ_PREFIX + "none~")
        self.add("change", code=215, ext={"topic": self.random.choice(names)})

    def key_values(self) -> None:
        random = self.random
        place = {"namespace": random.choice(("space~", "other~")), "key": random.choice(("a", "b"))}
        code = random.choice((100, 100, 101, 101, 102, 219))
        ext = place | {"value": random.choice(("1", "two", "ü"))} if code == 100 else place
        self.add("change", code=code, ext=ext, client="ns")

    def reset(self) -> None:
        random, topic, group = self.random, self.topic(), self.group()
        self.add("collect", topic=topic)
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": random.choice(("0", "-1", "4102444800000")),
            "isForce": random.choice(("true", "false")),
        }
        self.add("change", code=222, ext=ext)
        self.add("pushes")

    def unknown(self) -> None:
        self.add("ask", code=self.random.choice((0, 9_999, -1, 40, 220)), ext={})


_KINDS: Sequence[tuple[Callable[[_Maker], None], float]] = (
    (_Maker.send, 30),
    (_Maker.send_batch, 4),
    (_Maker.send_oddly, 8),
    (_Maker.send_to_any_queue, 2),
    (_Maker.send_retry, 3),
    (_Maker.half, 3),
    (_Maker.end, 4),
    (_Maker.pull, 14),
    (_Maker.filters, 2),
    (_Maker.large, 0.5),
    (_Maker.held, 2),
    (_Maker.offsets, 12),
    (_Maker.pipelined, 3),
    (_Maker.hand_overs, 1),
    (_Maker.heartbeat, 5),
    (_Maker.unregister, 2),
    (_Maker.members, 2),
    (_Maker.lock, 4),
    (_Maker.check, 1),
    (_Maker.back, 5),
    (_Maker.look_up, 6),
    (_Maker.route, 4),
    (_Maker.admin, 8),
    (_Maker.put_topic, 1.5),
    (_Maker.put_group, 1.5),
    (_Maker.delete_group, 0.7),
    (_Maker.delete_oddly, 0.5),
    (_Maker.key_values, 3),
    (_Maker.reset, 1),
    (_Maker.unknown, 1),
)


def sequence(seed: int, number: int) -> list[Op]:
    """Return the sequence with this number, which ends with reads of everything."""
    maker = _Maker(seed, number)
    if maker.chance(0.1):
        maker.leave_some_open()
        return maker.ops
    kinds, weights = zip(*_KINDS, strict=True)
    for kind in maker.random.choices(kinds, weights, k=maker.random.randint(5, 40)):
        kind(maker)
    everything = [
        *TOPICS,
        "T3~",
        *(prefix + group for prefix in (RETRY_PREFIX, DLQ_PREFIX) for group in GROUPS),
    ]
    for topic in everything:
        maker.add("collect", topic=topic)
    if maker.chance(0.3):
        maker.delete_topic()
    return maker.ops
