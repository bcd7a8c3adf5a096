"""What tests expect of messages: ask for those that were sent, wait until so many are delivered, acknowledged
or dead, and say what is missing.

A wait is one long poll. It looks again when something is stored or an offset moves, and reads only what is
new since it looked last.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.verification.like import MessageMatcher, shown_body
from mocketmq.broker.verification.sent_message import Identity, SentMessage
from mocketmq.broker.verification.sent_messages import SentMessages
from mocketmq.broker.verification.standing import At, Standing, standings
from mocketmq.duration import format_duration
from mocketmq.message.body import body_of
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import KEYS, TAGS, decode_properties
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

Stage = Literal["sent", "delivered", "acknowledged", "dead"]
STAGES: Final[tuple[Stage, ...]] = ("sent", "delivered", "acknowledged", "dead")
NEAREST = 3
"""Near misses that an answer has."""
MAX_EXPECTED = 100_000
"""Messages that are remembered as expected."""
_SHOWN = 10
"""Messages in an explanation."""
_SEARCHED = 1_000
"""Newest messages among which near misses are searched."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SeenMessage(NamedTuple):
    """A sent message, its content, and its state in each consumer group."""

    sent: SentMessage
    content: StoredMessage
    standings: Mapping[str, Standing]


class NearMiss(NamedTuple):
    """A message that almost matches the expectation, and where it differs."""

    seen: SeenMessage
    differences: Sequence[str]


class Wanted(NamedTuple):
    """What is waited for: of the messages like this, so many at each of the stages, or exactly so many."""

    topic: str
    like: MessageMatcher
    counts: Mapping[Stage, int]
    group: str | None = None
    exactly: bool = False

    def is_reached(self, seen: Mapping[Stage, int]) -> bool:
        """Whether the counts are enough."""
        return all(
            seen[stage] == count if self.exactly else seen[stage] >= count
            for stage, count in self.counts.items()
        )

    def is_over(self, seen: Mapping[Stage, int]) -> bool:
        """Whether waiting cannot change the answer."""
        is_beyond = self.exactly and any(seen[stage] > count for stage, count in self.counts.items())
        return is_beyond or self.is_reached(seen)


class FoundMessages(NamedTuple):
    """What a wait found: how many messages reached each stage, the newest of them, and what is missing."""

    reached: bool
    counts: Mapping[Stage, int]
    messages: Sequence[SeenMessage]
    near_misses: Sequence[NearMiss]
    explanation: str


class Unexpected(NamedTuple):
    """How many messages nobody expected, the newest of them, and the same in words."""

    total: int
    messages: Sequence[SeenMessage]
    explanation: str


class Expectations:
    """Answers what was sent and what became of it, and remembers which of that was expected."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        schemes: SchemeSet,
        max_message_bytes: int,
    ) -> None:
        self._store = store
        self._registry = registry
        self._groups = groups
        self._polls = polls
        self._schemes = schemes
        self._max_message_bytes = max_message_bytes
        self._expected: set[Identity] = set()

    def forget(self) -> None:
        """Everything was emptied: nothing is expected."""
        self._expected.clear()

    async def sent(
        self, topic: str, like: MessageMatcher, limit: int, *, expected: bool = False
    ) -> tuple[int, list[SeenMessage]]:
        """How many messages like this were sent to the topic, and the newest ``limit``, oldest first."""
        messages = self.messages(topic, like)
        await messages.follow()
        if expected:
            self._expect(messages)
        return messages.forgotten + len(messages), await self.seen(messages, messages.in_order(), limit)

    async def wait(
        self, wanted: Wanted, limit: int, wait_s: float, *, expected: bool = False
    ) -> FoundMessages:
        """Wait up to ``wait_s`` real seconds until the messages are there that are wanted.

        The answer has the newest ``limit`` of those that are. Raises a StoreError.
        """
        messages = self.messages(wanted.topic, wanted.like)
        counter = _Counter(self._store, wanted, messages, self._groups)

        async def look() -> dict[Stage, int]:
            await messages.follow()
            return await counter.count()

        counts = await self._polls.wait_for(look, (ANYTHING,), wait_s, is_enough=wanted.is_over)
        reached = wanted.is_reached(counts)
        there = [sent for sent in messages.in_order() if counter.is_there(sent)]
        if expected and reached:
            self._expect(there)
        seen = await self.seen(messages, there, limit)
        if reached:
            return FoundMessages(True, counts, seen, [], "")
        misses = [] if wanted.is_over(counts) else await self._near_misses(wanted, messages, counter)
        return FoundMessages(False, counts, seen, misses, self._explain(wanted, counts, seen, misses))

    async def unexpected(self, topic: str | None, limit: int) -> Unexpected:
        """The messages sent to a topic, or to all, that no request has expected."""
        messages = self.messages(topic, MessageMatcher())
        await messages.follow()
        left = [sent for sent in messages.in_order() if sent.identity not in self._expected]
        seen = await self.seen(messages, left, limit)
        lines = []
        if left:
            lines.append(f"sent, and expected by no assertion: {len(left)}")
            lines += [f"  {self.describe(one)}" for one in seen[-_SHOWN:]]
        return Unexpected(len(left), seen, "\n".join(lines))

    def messages(self, topic: str | None, like: MessageMatcher) -> SentMessages:
        """A reader of what was sent to a topic, or to any."""
        return SentMessages(
            self._store,
            self._registry.topics,
            self._schemes,
            topic,
            like,
            self._max_message_bytes,
        )

    def _expect(self, messages: Iterable[SentMessage]) -> None:
        self._expected.update(sent.identity for sent in messages)
        while len(self._expected) > MAX_EXPECTED:
            self._expected.pop()

    async def seen(
        self, messages: SentMessages, found: Sequence[SentMessage], limit: int
    ) -> list[SeenMessage]:
        """The last of these with their contents, without those that retention has removed."""
        some = found[-limit:] if limit else []
        await messages.note_cancelled(some)
        contents = await messages.contents(some)
        at_groups: list[dict[str, Standing]] = [{} for _ in some]
        for group in self._groups:
            known = {queue.topic for queue in group.queues}
            of_group = [
                (sent, at)
                for sent, at in zip(some, at_groups, strict=True)
                if sent.queue.topic in known or group.name in sent.again
            ]
            there = await standings(self._store.database, group, [sent for sent, _ in of_group])
            for (_, at), standing in zip(of_group, there, strict=True):
                if standing.at is not At.NOT_DELIVERED:
                    at[group.name] = standing
        return [
            SeenMessage(sent, contents[sent.record], at)
            for sent, at in zip(some, at_groups, strict=True)
            if sent.record in contents
        ]

    async def _near_misses(
        self, wanted: Wanted, messages: SentMessages, counter: "_Counter"
    ) -> list[NearMiss]:
        """First those that are like it and did not get there, then those that differ least; newest first."""
        not_there = [sent for sent in messages.in_order() if not counter.is_there(sent)]
        late = await self.seen(messages, not_there, NEAREST)
        misses = [NearMiss(one, [self._what_is_missing(wanted, one)]) for one in reversed(late)]
        if len(misses) == NEAREST:
            return misses
        everything = self.messages(None, MessageMatcher())
        await everything.follow()
        alike = {sent.identity for sent in messages}
        others = [sent for sent in everything.in_order() if sent.identity not in alike][-_SEARCHED:]
        ranked: list[tuple[int, int, SentMessage, list[str]]] = []
        contents = await everything.contents(others)
        for index, sent in enumerate(others):
            if sent.record in contents:
                differences = self._differences(wanted, sent, contents[sent.record])
                if len(differences) <= wanted.like.conditions:
                    ranked.append((len(differences), -index, sent, differences))
        ranked.sort(key=lambda one: one[:2])
        nearest = {sent: differences for _, _, sent, differences in ranked[: NEAREST - len(misses)]}
        seen = await self.seen(everything, list(nearest), NEAREST)
        return misses + [NearMiss(one, nearest[one.sent]) for one in seen]

    def _differences(self, wanted: Wanted, sent: SentMessage, content: StoredMessage) -> list[str]:
        found = [] if sent.queue.topic == wanted.topic else [f"topic: {sent.queue.topic}, not {wanted.topic}"]
        found += wanted.like.differences(
            sent.unique_key,
            decode_properties(content.properties),
            delayed=sent.due_us is not None,
            level=sent.level,
        )
        if wanted.like.needs_body:
            found += wanted.like.body_differences(body_of(content, self._max_message_bytes).content)
        return found

    def _what_is_missing(self, wanted: Wanted, seen: SeenMessage) -> str:
        if not seen.sent.places:
            return self.state_in_words(seen)
        if "acknowledged" in wanted.counts and wanted.group is not None:
            return self.standing_in_words(
                wanted.group, seen.standings.get(wanted.group, Standing(At.NOT_TAKEN))
            )
        return f"not dead: {self.state_in_words(seen)}"

    # In words

    def _explain(
        self,
        wanted: Wanted,
        counts: Mapping[Stage, int],
        seen: Sequence[SeenMessage],
        misses: Sequence[NearMiss],
    ) -> str:
        """What is missing, for people: the same in every client."""
        lines = []
        for stage, count in wanted.counts.items():
            by = ""
            if wanted.group is not None and stage in ("acknowledged", "dead"):
                by = f" {'by' if stage == 'acknowledged' else 'at'} {wanted.group}"
            much = "exactly" if wanted.exactly else "at least"
            lines.append(f"{wanted.topic}: {counts[stage]} {stage}{by}, wanted {much} {count}")
        if conditions := str(wanted.like):
            lines.append(f"of messages with {conditions}")
        if seen:
            lines += ["found:", *(f"  {self.describe(one)}" for one in seen[-_SHOWN:])]
        if misses:
            lines.append("nearest:")
            lines += [f"  {self.describe(one.seen)}\n    {'; '.join(one.differences)}" for one in misses]
        if not (seen or misses):
            lines.append("nothing like it was sent")
        return "\n".join(lines)

    def describe(self, seen: SeenMessage) -> str:
        """A message and what became of it, in a line."""
        return f"{self.name(seen)}: {self.state_in_words(seen)}"

    def name(self, seen: SeenMessage) -> str:
        """A message, so that people know it: topic, tag, keys and body."""
        properties = decode_properties(seen.content.properties)
        body = body_of(seen.content, self._max_message_bytes)
        shown = f"({body.compression})" if body.compression else shown_body(body.content)
        marks = "".join(
            f" {name} {properties[known]}"
            for name, known in (("tag", TAGS), ("keys", KEYS))
            if known in properties
        )
        return f"{seen.sent.queue.topic}{marks} {shown}"

    def state_in_words(self, seen: SeenMessage) -> str:
        """What became of a message."""
        sent = seen.sent
        if sent.is_cancelled:
            return "cancelled"
        if not sent.places:
            level = f" by level {sent.level}" if sent.level else ""
            return f"delayed{level}, due {self._when(sent.due_us or 0)}"
        at = [self.standing_in_words(group, standing) for group, standing in seen.standings.items()]
        return "; ".join(at) or "delivered, no group has consumed the topic"

    def standing_in_words(self, group: str, standing: Standing) -> str:
        """How a message stands at a group, and until when."""
        until = "" if standing.until_us is None else f", until {self._when(standing.until_us)}"
        return f"{standing.at} at {group}{until}"

    def _when(self, instant_us: int) -> str:
        at = _EPOCH + timedelta(microseconds=instant_us)
        distance_us = instant_us - self._store.clock.now_us()
        distance = f"in {format_duration(distance_us)}" if distance_us > 0 else "now"
        return f"{distance} ({at:%H:%M:%S})"


class _Counter:
    """Counts how many messages have got to each stage; what was acknowledged once stays so."""

    def __init__(self, store: Store, wanted: Wanted, messages: SentMessages, groups: ConsumingGroups) -> None:
        self._database = store.database
        self._wanted = wanted
        self._messages = messages
        self._groups = groups
        self._acknowledged: set[Identity] = set()

    async def count(self) -> dict[Stage, int]:
        messages = self._messages
        await self._look_for_acknowledged()
        return {
            "sent": messages.forgotten + len(messages),
            "delivered": messages.forgotten_places + sum(len(sent.places) for sent in messages),
            "acknowledged": len(self._acknowledged),
            "dead": sum(map(self._is_dead, messages)),
        }

    async def _look_for_acknowledged(self) -> None:
        group: ConsumingGroup | None = None
        if self._wanted.group is not None:
            group = self._groups.find(self._wanted.group)
        if group is None:
            return
        open_ones = [
            sent for sent in self._messages if sent.places and sent.identity not in self._acknowledged
        ]
        for sent, standing in zip(open_ones, await standings(self._database, group, open_ones), strict=True):
            if standing.at is At.ACKNOWLEDGED:
                self._acknowledged.add(sent.identity)

    def _is_dead(self, sent: SentMessage) -> bool:
        again = sent.again.values() if self._wanted.group is None else (sent.again.get(self._wanted.group),)
        return any(one is not None and one.is_dead for one in again)

    def is_there(self, sent: SentMessage) -> bool:
        """Whether the message is at every stage that is wanted."""
        stages = self._wanted.counts
        return (
            ("delivered" not in stages or bool(sent.places))
            and ("acknowledged" not in stages or sent.identity in self._acknowledged)
            and ("dead" not in stages or self._is_dead(sent))
        )
