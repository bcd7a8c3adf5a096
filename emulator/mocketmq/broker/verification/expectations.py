"""Checks tests' expectations of sent messages: waits until they are met, and explains what is missing.

A wait is one long poll. The poll reads new rows whenever something is stored or an offset moves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.registry.brokers import DOWN
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.verification.clock_steps import Advance, AwaitedMessage, Reach, Steps
from mocketmq.broker.verification.group_status import GroupState, GroupStatus, group_statuses
from mocketmq.broker.verification.message_matcher import MessageMatcher
from mocketmq.broker.verification.sent_messages import Identity, SentMessage, SentMessages
from mocketmq.duration import format_duration
from mocketmq.instant import format_time
from mocketmq.message.body import body_of, shown_body
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import KEYS, LITE_TOPIC, TAGS, decode_properties
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.counters import has_moved
from mocketmq.store.store import Store

Stage = Literal["sent", "delivered", "acknowledged", "dead"]
STAGES: Final[tuple[Stage, ...]] = ("sent", "delivered", "acknowledged", "dead")
NEAREST = 3
"""Maximum number of near misses in an answer."""
CLOCK_STANDS: Final = "the clock is manual and was not moved"
_NOT_DEAD: Final = "not dead: "
MAX_EXPECTED = 100_000
"""Maximum number of messages that are remembered as expected."""
_SHOWN = 10
"""Maximum number of messages in an explanation."""
_WATCHED = 1_000
"""Maximum number of messages for which a wait moves the clock."""
_SEARCHED = 1_000
"""Number of newest messages that are searched for near misses."""


class SeenMessage(msgspec.Struct, frozen=True):
    """A sent message, its content, and its state in each consumer group."""

    sent: SentMessage
    content: StoredMessage
    group_statuses: Mapping[str, GroupStatus]


class NearMiss(msgspec.Struct, frozen=True):
    """A message that almost matches the expectation, and where it differs."""

    seen: SeenMessage
    differences: Sequence[str]


class Wanted(msgspec.Struct, frozen=True):
    """The messages to wait for. ``counts`` is how many matches must reach each stage, at least or exactly."""

    topic: str
    matcher: MessageMatcher
    counts: Mapping[Stage, int]
    group: str | None = None
    exactly: bool = False

    @property
    def is_about_groups(self) -> bool:
        """Whether a stage depends on what consumers do."""
        return "acknowledged" in self.counts or "dead" in self.counts

    def is_reached(self, seen: Mapping[Stage, int]) -> bool:
        """Whether these counts meet the wanted counts."""
        return all(
            seen[stage] == count if self.exactly else seen[stage] >= count
            for stage, count in self.counts.items()
        )

    def is_over(self, seen: Mapping[Stage, int]) -> bool:
        """Whether waiting longer cannot change the answer."""
        is_beyond = self.exactly and any(seen[stage] > count for stage, count in self.counts.items())
        return is_beyond or self.is_reached(seen)


class FoundMessages(msgspec.Struct, frozen=True):
    """The result of a wait: how many messages reached each stage, the newest of them, and what is missing.

    ``steps`` are the clock moves, if the wait was allowed to move the clock.
    """

    reached: bool
    counts: Mapping[Stage, int]
    messages: Sequence[SeenMessage]
    near_misses: Sequence[NearMiss]
    explanation: str
    steps: Steps | None = None


class Unexpected(msgspec.Struct, frozen=True):
    """The number of unexpected messages, the newest of them, and a description of them in words."""

    total: int
    messages: Sequence[SeenMessage]
    explanation: str


@dataclass(eq=False, repr=False)
class Expectations:
    """Answers which messages were sent and how they ended, and remembers which of them were expected."""

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _polls: Polls
    _schemes: SchemeSet
    _held: HeldDeliveries
    _reach: Reach
    _max_message_bytes: int
    _expected: set[Identity] = field(init=False, default_factory=set)

    def forget(self) -> None:
        """Forget which messages were expected, after a full reset."""
        self._expected.clear()

    async def sent(
        self, topic: str, matcher: MessageMatcher, limit: int, *, expected: bool = False
    ) -> tuple[int, list[SeenMessage]]:
        """The number of matching messages sent to the topic, and the newest ``limit``, oldest first."""
        messages = self.messages(topic, matcher)
        await messages.follow()
        if expected:
            self._expect(messages)
        return messages.forgotten + len(messages), await self.seen(messages, messages.in_order(), limit)

    async def wait(
        self,
        wanted: Wanted,
        limit: int,
        wait_s: float,
        *,
        expected: bool = False,
        advance: Advance | None = None,
    ) -> FoundMessages:
        """Wait up to ``wait_s`` real seconds until the wanted messages have reached their stages.

        With ``advance``, the clock is moved to each instant that the messages wait for. The result has the
        newest ``limit`` messages that have reached their stages. Raises a StoreError, and ClockError from a
        move.
        """
        messages = self.messages(wanted.topic, wanted.matcher)
        counter = _Counter(self._store, wanted, messages, self._groups)

        async def look() -> dict[Stage, int]:
            await messages.follow()
            return await counter.count()

        async def look_closely() -> tuple[dict[Stage, int], list[AwaitedMessage]]:
            return await look(), await self._waiting(wanted, messages, counter)

        steps = None
        if advance is None:
            counts = await self._polls.wait_for(look, (ANYTHING,), wait_s, is_enough=wanted.is_over)
        else:
            steps = Steps(self._store.clock, self._reach, self._polls, advance)
            counts = await steps.wait_for(look_closely, wait_s, wanted.is_over)
        reached = wanted.is_reached(counts)
        there = [sent for sent in messages.in_order() if counter.is_there(sent)]
        if expected and reached:
            self._expect(there)
        seen = await self.seen(messages, there, limit)
        if reached:
            return FoundMessages(True, counts, seen, [], "", steps)
        misses = [] if wanted.is_over(counts) else await self._near_misses(wanted, messages, counter)
        explanation = self._explain(wanted, counts, seen, misses)
        if steps is not None:
            explanation += f"\n{steps}"
        elif misses and await self._waits_for_clock(wanted, await self._waiting(wanted, messages, counter)):
            explanation += f"\n{CLOCK_STANDS}: advance it, or move it to the next due time"
        return FoundMessages(False, counts, seen, misses, explanation, steps)

    async def _waiting(
        self, wanted: Wanted, messages: SentMessages, counter: "_Counter"
    ) -> list[AwaitedMessage]:
        """The matching messages that have not reached their stages yet, up to a limit."""
        late = [sent for sent in messages.in_order() if not counter.is_there(sent)][:_WATCHED]
        await messages.note_cancelled(late)
        late = [sent for sent in late if not (sent.is_cancelled or sent.is_lost)]
        at_groups = (
            await self._at_groups(late, wanted.group) if wanted.is_about_groups else [{} for _ in late]
        )
        return [
            AwaitedMessage(sent.identity, None if sent.positions else sent.due_us, tuple(at.items()))
            for sent, at in zip(late, at_groups, strict=True)
        ]

    async def _waits_for_clock(self, wanted: Wanted, waiting: Iterable[AwaitedMessage]) -> bool:
        """Whether one of these messages waits for the manual clock, which nobody has moved."""
        if self._store.clock.rate or await has_moved(self._store.database):
            return False
        now_us = self._store.clock.now_us()
        return any(
            one.next_us(now_us) is not None and ("dead" in wanted.counts or not one.is_with_consumers)
            for one in waiting
        )

    async def unexpected(self, topic: str | None, limit: int) -> Unexpected:
        """The messages sent to one topic, or to any topic, that no request has expected."""
        messages = self.messages(topic, MessageMatcher())
        await messages.follow()
        left = [sent for sent in messages.in_order() if sent.identity not in self._expected]
        seen = await self.seen(messages, left, limit)
        lines = []
        if left:
            lines.append(f"sent, but expected by no assertion: {len(left)}")
            lines += [f"  {self.describe(one)}" for one in seen[-_SHOWN:]]
        return Unexpected(len(left), seen, "\n".join(lines))

    def messages(self, topic: str | None, matcher: MessageMatcher) -> SentMessages:
        """Make a reader of the messages sent to one topic, or to any topic."""
        return SentMessages(
            self._store, self._registry.topics, self._schemes, topic, matcher, self._max_message_bytes
        )

    def _expect(self, messages: Iterable[SentMessage]) -> None:
        self._expected.update(sent.identity for sent in messages)
        while len(self._expected) > MAX_EXPECTED:
            self._expected.pop()

    async def seen(
        self, messages: SentMessages, found: Sequence[SentMessage], limit: int
    ) -> list[SeenMessage]:
        """The last ``limit`` of these messages with their contents. Removed messages are omitted."""
        some = found[-limit:] if limit else []
        await messages.note_cancelled(some)
        contents = await messages.contents(some)
        at_groups = await self._at_groups(some)
        return [
            SeenMessage(sent, contents[sent.record], at)
            for sent, at in zip(some, at_groups, strict=True)
            if sent.record in contents
        ]

    async def _at_groups(
        self, some: Sequence[SentMessage], group_name: str | None = None
    ) -> list[dict[str, GroupStatus]]:
        """Each message's status in all groups, or in one, that know its topic or have given it back."""
        at_groups: list[dict[str, GroupStatus]] = [{} for _ in some]
        for group in self._groups:
            if group_name not in (None, group.name):
                continue
            known = {queue.topic for queue in group.queues}
            of_group = [
                (sent, at)
                for sent, at in zip(some, at_groups, strict=True)
                if sent.queue.topic in known or group.name in sent.again
            ]
            there = await group_statuses(self._store.database, group, [sent for sent, _ in of_group])
            for (_, at), status in zip(of_group, there, strict=True):
                if status.state is not GroupState.NOT_DELIVERED:
                    at[group.name] = status
        return at_groups

    async def _near_misses(
        self, wanted: Wanted, messages: SentMessages, counter: "_Counter"
    ) -> list[NearMiss]:
        """The matches that did not reach their stages, then the messages that differ least; newest first."""
        not_there = [sent for sent in messages.in_order() if not counter.is_there(sent)]
        late = await self.seen(messages, not_there, NEAREST)
        misses = [NearMiss(one, [self._what_is_missing(wanted, one)]) for one in reversed(late)]
        if len(misses) == NEAREST:
            return misses
        everything = self.messages(None, MessageMatcher())
        await everything.follow()
        matching = {sent.identity for sent in messages}
        others = [sent for sent in everything.in_order() if sent.identity not in matching][-_SEARCHED:]
        ranked: list[tuple[int, int, SentMessage, list[str]]] = []
        contents = await everything.contents(others)
        for index, sent in enumerate(others):
            if sent.record in contents:
                differences = self._differences(wanted, sent, contents[sent.record])
                if len(differences) <= wanted.matcher.conditions:
                    ranked.append((len(differences), -index, sent, differences))
        ranked.sort(key=lambda one: one[:2])
        nearest = {sent: differences for _, _, sent, differences in ranked[: NEAREST - len(misses)]}
        seen = await self.seen(everything, list(nearest), NEAREST)
        return misses + [NearMiss(one, nearest[one.sent]) for one in seen]

    def _differences(self, wanted: Wanted, sent: SentMessage, content: StoredMessage) -> list[str]:
        found = [] if sent.queue.topic == wanted.topic else [f"topic: {sent.queue.topic}, not {wanted.topic}"]
        found += wanted.matcher.differences(
            sent.unique_key,
            decode_properties(content.properties),
            delayed=sent.due_us is not None,
            level=sent.level,
        )
        if wanted.matcher.needs_body:
            found += wanted.matcher.body_differences(body_of(content, self._max_message_bytes).content)
        return found

    def _what_is_missing(self, wanted: Wanted, seen: SeenMessage) -> str:
        if not seen.sent.positions:
            return self.state_in_words(seen)
        if "acknowledged" in wanted.counts and wanted.group is not None:
            return self.status_in_words(
                wanted.group, seen.group_statuses.get(wanted.group, GroupStatus(GroupState.NOT_TAKEN))
            )
        return _NOT_DEAD + self.state_in_words(seen)

    # In words

    def _explain(
        self,
        wanted: Wanted,
        counts: Mapping[Stage, int],
        seen: Sequence[SeenMessage],
        misses: Sequence[NearMiss],
    ) -> str:
        """Explain what is missing, in the same words for every client."""
        lines = []
        for stage, count in wanted.counts.items():
            by = ""
            if wanted.group is not None and stage in ("acknowledged", "dead"):
                by = f" {'by' if stage == 'acknowledged' else 'at'} {wanted.group}"
            much = "exactly" if wanted.exactly else "at least"
            lines.append(f"{wanted.topic}: {counts[stage]} {stage}{by}, wanted {much} {count}")
        if conditions := str(wanted.matcher):
            lines.append(f"of messages with {conditions}")
        if seen:
            lines += ["found:", *(f"  {self.describe(one)}" for one in seen[-_SHOWN:])]
        if misses:
            lines.append("nearest:")
            for one in misses:
                lines.append(f"  {self.describe(one.seen)}")
                more = [text for text in one.differences if text.removeprefix(_NOT_DEAD) not in lines[-1]]
                lines += [f"    {'; '.join(more)}"] if more else []
        if not (seen or misses):
            lines.append("no similar message was sent")
        return "\n".join(lines)

    def describe(self, seen: SeenMessage) -> str:
        """Describe a message and its state in one line."""
        return f"{self.name(seen)}: {self.state_in_words(seen)}"

    def name(self, seen: SeenMessage) -> str:
        """Describe a message so that people recognize it: topic, lite topic, tag, keys and body."""
        properties = decode_properties(seen.content.properties)
        body = body_of(seen.content, self._max_message_bytes)
        shown = f"({body.compression})" if body.compression else shown_body(body.content)
        marks = "".join(
            f" {name} {properties[known]}"
            for name, known in (("lite topic", LITE_TOPIC), ("tag", TAGS), ("keys", KEYS))
            if known in properties
        )
        return f"{seen.sent.queue.topic}{marks} {shown}"

    def state_in_words(self, seen: SeenMessage) -> str:
        """Describe the state of a message."""
        sent = seen.sent
        if sent.is_lost:
            return f"lost when {self._registry.brokers.name_of(sent.queue)} went down"
        if sent.is_cancelled:
            return "cancelled"
        if not sent.positions:
            level, due_us = f" by level {sent.level}" if sent.level else "", sent.due_us or 0
            held = None if sent.is_outside else self._held_since(sent.record, due_us)
            return f"delayed{level}, {held or f'due {self._due(due_us)}'}"
        at = [self.status_in_words(group, status) for group, status in seen.group_statuses.items()]
        return "; ".join(at) or "delivered, no group has consumed the topic"

    def status_in_words(self, group: str, status: GroupStatus) -> str:
        """Describe a message's state in a group, and the end of that state."""
        until = "" if status.until_us is None else f", until {self._end(status.until_us)}"
        if status.parked is not None and (held := self._held_since(status.parked, status.until_us or 0)):
            until = f", {held}"
        return f"{status.state} at {group}{until}"

    def _held_since(self, record: int, due_us: int) -> str | None:
        """Name the fault rule, or the broker that is down, that holds the record past its due time."""
        fault = self._held.holder_of(record)
        if fault is None:
            return None
        by = f"{fault.removesuffix(DOWN)}, which is down," if fault.endswith(DOWN) else fault
        return f"held by {by} since {format_time(due_us, self._store.clock.now_us())}"

    def _due(self, instant_us: int) -> str:
        now_us = self._store.clock.now_us()
        distance_us = instant_us - now_us
        distance = f"in {format_duration(distance_us)}" if distance_us > 0 else "now"
        return f"{distance} ({format_time(instant_us, now_us)})"

    def _end(self, instant_us: int) -> str:
        now_us = self._store.clock.now_us()
        distance_us = instant_us - now_us
        distance = f"in {format_duration(distance_us)}" if distance_us > 0 else "which is over"
        return f"{format_time(instant_us, now_us)}, {distance}"


class _Counter:
    """Counts how many messages have reached each stage. A message acknowledged once stays acknowledged."""

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
            "delivered": messages.forgotten_positions + sum(len(sent.positions) for sent in messages),
            "acknowledged": len(self._acknowledged),
            "dead": sum(map(self._is_dead, messages)),
        }

    async def _look_for_acknowledged(self) -> None:
        group: ConsumingGroup | None = None
        if self._wanted.group is not None:
            group = self._groups.find_group(self._wanted.group)
        if group is None:
            return
        open_ones = [
            sent for sent in self._messages if sent.positions and sent.identity not in self._acknowledged
        ]
        for sent, status in zip(
            open_ones, await group_statuses(self._database, group, open_ones), strict=True
        ):
            if status.state is GroupState.ACKNOWLEDGED:
                self._acknowledged.add(sent.identity)

    def _is_dead(self, sent: SentMessage) -> bool:
        again = sent.again.values() if self._wanted.group is None else (sent.again.get(self._wanted.group),)
        return any(one is not None and one.is_dead for one in again)

    def is_there(self, sent: SentMessage) -> bool:
        """Whether the message has reached every wanted stage."""
        stages = self._wanted.counts
        return (
            ("delivered" not in stages or bool(sent.positions))
            and ("acknowledged" not in stages or sent.identity in self._acknowledged)
            and ("dead" not in stages or self._is_dead(sent))
        )
