"""Sequences of clients that pipeline requests, and of two group members that hand over a queue."""

from tests.differential.sent import Producing

GROUP = "Pair~"
"""A group that is never reset and never refused anything."""
TOPIC = "T6~"


class Pairing(Producing):
    """Adds the operations of these clients to a sequence."""

    def pipelined(self) -> None:
        self.add(
            "pipelined",
            group=GROUP,
            topic=self.topic(),
            queue_id=self.random.choice((0, 0, 1, 3)),
            count=self.random.randint(2, 6),
        )

    def hand_overs(self) -> None:
        """Let the two members hand a queue to each other in turn."""
        random, members = self.random, ["first", "second"]
        self._send_some()
        for member in members:
            self._join(member)
        for _ in range(random.randint(2, 5)):
            giver, taker = members
            ordered = self.chance(0.5)
            self.add(
                "hand_over",
                group=GROUP,
                topic=TOPIC,
                queue_id=0,
                giver=giver,
                taker=taker,
                count=random.randint(1, 4),
                ordered=ordered,
            )
            self.add("committed", group=GROUP, topic=TOPIC, queue_id=0)
            if not ordered:
                self._join(giver)
            if self.chance(0.4):
                self._send_some()
            members.reverse()
        self.add("ask", code=208, ext={"consumerGroup": GROUP, "topic": TOPIC})

    def _send_some(self) -> None:
        for _ in range(self.random.randint(2, 8)):
            serial = self.serial()
            properties = self.properties(serial, delay=0)
            self.add("send", **self.send_args(serial, TOPIC, queue_id=0, properties=properties))
        self.add("collect", topic=TOPIC)

    def _join(self, member: str) -> None:
        self._version += 1
        groups = {GROUP: {"topics": {TOPIC: {"version": self._version}}}}
        self.add("heartbeat", client=member, client_id=f"id-{member}", groups=groups, producers=[])
