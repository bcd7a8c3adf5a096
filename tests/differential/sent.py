"""Send operations of random sequences: messages, batches, half messages and transaction ends."""

from random import Random
from typing import Any

from mocketmq.message.names import RETRY_PREFIX
from tests.differential.op import Op
from tests.differential.values import (
    BORN_LATE_MS,
    GROUPS,
    ODD_SENDS,
    PLANS,
    PROPERTIES,
    TAGS,
    TOPICS,
)
from tests.doors.remoting.producing import BORN_MS, joined


class Producing:
    """A sequence of operations, with methods that add sends to it."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = Random(f"{seed} {number}")
        self.ops: list[Op] = []
        self._serial = 0
        self._version = 0
        self._halves: list[tuple[str, str, str]] = []
        self._left_open: list[tuple[str, str, bool]] = []
        self._sent: list[str] = []
        self._queues: dict[str, int] = {}

    def add(self, op: str, /, **args: Any) -> None:
        self.ops.append(Op(op, args))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def topic(self) -> str:
        return self.random.choice(TOPICS)

    def group(self) -> str:
        return self.random.choice(GROUPS)

    def queue(self) -> int:
        return self.random.choice((0, 0, 0, 1, 1, 2, 3, 3, 4, 7, 8, -1, 100))

    def serial(self) -> str:
        self._serial += 1
        return str(self._serial)

    def sent(self) -> str:
        """Return the number of a message that was probably sent."""
        return self.random.choice(self._sent) if self._sent and not self.chance(0.03) else "999"

    def properties(self, serial: str, *, delay: float = 0.25) -> str:
        random = self.random
        given: dict[str, str] = {"UNIQ_KEY": f"7F0000010001{int(serial):020X}~"}
        if self.chance(0.6):
            given["TAGS"] = random.choice(TAGS)
        if self.chance(0.5):
            given["KEYS"] = " ".join(
                random.sample(["k1", "k2", f"k{serial}", "schlüssel", "a#b"], random.randint(1, 3))
            )
        if self.chance(delay):
            given["DELAY"] = random.choice(
                ("1", "1", "2", "2", "3", "4", "0", "-1", "5", "19", "2147483647", "+1", "01")
            )
        if self.chance(0.3):
            given["WAIT"] = random.choice(("true", "false", "maybe"))
        if self.chance(0.2):
            name, value = random.choice(PROPERTIES)
            given[name] = value
        if self.chance(0.3):
            given |= {"a": random.choice(("5", "6", "7.5"))}
        text = joined(given)
        return text + random.choice(("", "\x02", "", "\x02\x02"))

    def body(self, serial: str) -> str:
        return serial if self.chance(0.7) else f"{serial}:{self.random.choice((20, 100, 5_000))}"

    def send_args(self, serial: str, topic: str, **changed: Any) -> dict[str, Any]:
        random = self.random
        queues = self._queues.setdefault(topic, random.choice((4, 4, 4, 1, 8, 16)))
        return {
            "code": random.choice((10, 310, 310)),
            "body": self.body(serial),
            "properties": self.properties(serial),
            "topic": topic,
            "producer_group": "makers",
            "default_topic": "TBW102",
            "default_topic_queue_nums": queues,
            "queue_id": random.randrange(min(4, queues)),
            "sys_flag": random.choice((0, 0, 0, 0, 1, 2, 0x101, 0x301, 8)),
            "born_timestamp": BORN_MS + int(serial),
            "flag": random.choice((0, 0, 1, -1, 2**31 - 1)),
            "reconsume_times": 0,
            "unit_mode": self.chance(0.1),
            "max_reconsume_times": random.choice((None, 0, 3)),
            **changed,
        }

    def send(self, **changed: Any) -> None:
        serial, topic = self.serial(), self.topic()
        self._sent.append(serial)
        self.add("send", **self.send_args(serial, topic, **changed))

    def send_batch(self) -> None:
        topic = self.topic()
        serials = [self.serial() for _ in range(self.random.randint(1, 5))]
        self._sent += serials
        args = self.send_args(
            serials[0], topic, properties=joined({"common": "c"}) if self.chance(0.3) else ""
        )
        del args["code"], args["body"]
        args |= {"sys_flag": 0, "batch": True}
        self.add(
            "send_batch",
            messages=[(self.body(serial), self.properties(serial, delay=0)) for serial in serials],
            **args,
        )

    def send_oddly(self) -> None:
        """Add sends that the broker may refuse; refused sends must store nothing."""
        random, serial = self.random, self.serial()
        self._sent.append(serial)
        change = random.choice(ODD_SENDS)
        self.add("send", **self.send_args(serial, self.topic()) | change)

    def send_to_any_queue(self) -> None:
        """Add a send without a queue id, to a topic with one queue."""
        serial = self.serial()
        self._sent.append(serial)
        self.add("send", **self.send_args(serial, "T3~", queue_id=-1, default_topic_queue_nums=1))

    def send_retry(self) -> None:
        """Send a retry as a new message, as clients do when sending back (36) fails."""
        serial = self.serial()
        self._sent.append(serial)
        self.add(
            "send",
            **self.send_args(
                serial,
                RETRY_PREFIX + self.group(),
                queue_id=0,
                reconsume_times=self.random.choice((0, 1, 2, 3, 15, 16, 17)),
                max_reconsume_times=self.random.choice((None, 0, 3, 16)),
            ),
            version=self.random.choice((409, 120, 121)),
        )

    def half(self) -> None:
        serial, topic, group = self.serial(), self.topic(), self.group()
        self._sent.append(serial)
        properties = self.half_properties(serial, group, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
        self._halves.append((serial, topic, group))
        born = BORN_LATE_MS + int(serial)  # because 5.x refuses an end after the message's immunity time
        args = self.send_args(serial, topic, properties=properties, sys_flag=4, born_timestamp=born)
        self.add("send", **args)

    def half_properties(self, serial: str, group: str, **more: str) -> str:
        given = {"TRAN_MSG": "true", "PGROUP": group, **more}
        return self.properties(serial, delay=0) + "\x02" + joined(given)

    def leave_open(self) -> None:
        """Add a half message that is decided by check-backs."""
        serial, plan = self.serial(), self.random.choice(PLANS)
        group = f"P{serial}~"
        send = self.send_args(
            serial,
            "T5~",
            properties=self.half_properties(serial, group),
            sys_flag=self.random.choice((4, 4, 5, 6)),
            born_timestamp=BORN_LATE_MS + int(serial),
            reconsume_times=self.random.choice((0, 0, 3)),
        )
        self._left_open.append((serial, group, plan[-1:] not in (["commit"], ["roll back"])))
        self.add("leave_open", group=group, plan=plan, send=send)

    def end(self) -> None:
        if not self._halves:
            return
        half = serial, topic, group = self.random.choice(self._halves)
        odd = self.random.choice(("", "", "", "", "group", "tranStateTableOffset", "commitLogOffset"))
        how = self.random.choice((8, 8, 8, 12, 0, 4))
        if not odd and how in (8, 12):
            self._halves.remove(half)
            if how == 8:
                self.add("expect", topic=topic, count=1)
        wrong = odd if odd.endswith("Offset") else ""
        self.add("end", serial=serial, how=how, group="G9" if odd == "group" else group, wrong=wrong)
