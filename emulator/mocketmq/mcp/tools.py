"""The tools, each of which calls the JSON API. An agent reads their docstrings to choose a tool."""

from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import given, instant_ms
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS
from mocketmq.errors import InvalidArgumentError
from mocketmq.instant import format_instant
from mocketmq.mcp import arguments as arg


class BrokerTools:
    """Tools for the broker of ``client``. Methods raise the errors of the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def show_broker(self) -> JsonObject:
        """Show the broker's version, settings, limits and ports, its clock, and its topics.

        The clock's mode is manual if it moves only by the tools, and real if it also runs by itself.
        """
        info, clock = await self._client.info(), await self._client.clock()
        topics = [topic["name"] for topic in await self._client.topics() if not topic["system"]]
        return {"info": info, "clock": clock, "topics": topics}

    async def send_message(
        self,
        topic: arg.Topic,
        body: arg.Body,
        tag: arg.Tag = None,
        keys: arg.Keys = None,
        properties: arg.Properties = None,
        delay: arg.Delay = None,
        delay_level: arg.DelayLevel = None,
        deliver_at: arg.DeliverAt = None,
    ) -> JsonObject:
        """Send a message, at once or delayed by one of delay, delay_level and deliver_at.

        Returns its message_id, and due_ms if it is delayed. It is durable on return.
        """
        options = given(
            tag=tag,
            keys=keys,
            properties=properties,
            delay=delay,
            delay_level=delay_level,
            start_deliver_ms=None if deliver_at is None else instant_ms(deliver_at, "deliver_at"),
        )
        return await self._client.send(topic, body, **options)

    async def find_messages(
        self,
        topic: arg.Topic,
        tag: arg.Tag = None,
        key: arg.Key = None,
        body: arg.BodyText = None,
        properties: arg.Properties = None,
        json_path: arg.JsonPath = None,
        max_messages: arg.Most = 20,
    ) -> JsonObject:
        """Find the newest messages that producers sent to a topic since the last reset, oldest first.

        A message must meet all criteria. The result has its state, and its outcome in each consumer group.
        """
        like = given(tag=tag, key=key, body=body, properties=properties, json_path=json_path)
        return {"messages": await self._client.sent(topic, max_messages=max_messages, **like)}

    async def wait_for_messages(
        self,
        topic: arg.Topic,
        stage: arg.Stage = "delivered",
        count: arg.Count = 1,
        group: arg.Group = None,
        wait: arg.RealWait = "5s",
        advance: arg.Advance = None,
        tag: arg.Tag = None,
        key: arg.Key = None,
        body: arg.BodyText = None,
        properties: arg.Properties = None,
        json_path: arg.JsonPath = None,
    ) -> JsonObject:
        """Wait until messages of a topic have reached a stage, counted since the last reset.

        `reached` says whether they have. If not, `explanation` says what is missing, and `near_misses` has
        the most similar messages with their differences. acknowledged needs a group; dead may have one.
        """
        like = given(tag=tag, key=key, body=body, properties=properties, json_path=json_path)
        in_time = like | given(advance=advance)
        if group is not None and stage in ("sent", "delivered"):
            raise InvalidArgumentError(
                "group", group, f"no value, because the stage {stage} does not depend on a group"
            )
        if advance is not None and stage == "sent":
            raise InvalidArgumentError(
                "advance", advance, "no value, because sends do not wait for the clock"
            )
        match stage:
            case "sent":
                return await self._client.wait_sent(topic, count, wait=wait, **like)
            case "delivered":
                return await self._client.wait_delivered(topic, count, wait=wait, **in_time)
            case "acknowledged":
                # Without a group, the broker's error says what is missing.
                return await self._client.wait_acknowledged(
                    topic, count, group=group or "", wait=wait, **in_time
                )
            case "dead":
                return await self._client.wait_dead(topic, count, group=group, wait=wait, **in_time)

    async def show_message(self, message_id: arg.MessageId) -> JsonObject:
        """Show the life of a message: when it was stored, due, delivered, received, acknowledged, and faults.

        Use it to find out why a consumer did not receive a message, or received it late or twice.
        """
        history = await self._client.message(message_id)
        record = history["records"][0]
        shown = {name: history[name] for name in ("message_id", "state", "consumption")}
        for name in ("topic", "tag", "keys", "properties", "body", "due_ms"):
            shown[name] = record[name]
        return {**shown, "life": _lines(history["life"])}

    async def list_delayed(
        self,
        topic: arg.SomeTopic = None,
        level: arg.DelayLevel = None,
        after: arg.After = None,
        max_messages: arg.Most = 20,
    ) -> JsonObject:
        """List messages that wait for their due time, in order of arrival.

        `fault` is the rule that holds a message after its due time. next_after begins the next page.
        """
        return await self._client.delayed(topic=topic, level=level, after=after, max_messages=max_messages)

    async def advance_clock(self, by: arg.MovedBy) -> JsonObject:
        """Move the broker's clock forward by a duration, so that delayed messages become due without waiting.

        On return, all messages that became due on the way are delivered. The clock cannot go back.
        """
        return await self._client.advance(by)

    async def move_clock_to(self, instant: arg.Moment) -> JsonObject:
        """Move the broker's clock forward to an instant, like advance_clock."""
        return await self._client.move_to(instant)

    async def move_clock_to_next_due(self) -> JsonObject:
        """Move the broker's clock to the next due time of anything that waits, and deliver what is due."""
        return await self._client.move_to_next()

    async def inject_fault(
        self,
        kind: arg.FaultKind,
        name: arg.RuleName = None,
        door: arg.Door = None,
        broker: arg.Broker = None,
        operation: arg.Operation = None,
        topic: arg.TopicPattern = None,
        group: arg.GroupPattern = None,
        client: arg.ClientPattern = None,
        next: arg.Next = None,  # noqa: A002 - as the API calls it
        every: arg.Every = None,
        from_ms: arg.FromMs = None,
        to_ms: arg.ToMs = None,
        lasts: arg.Lasts = None,
        probability: arg.Probability = None,
        seed: arg.Seed = None,
        error: arg.ErrorName = None,
        by: arg.By = None,
        back_after: arg.BackAfter = None,
        stage: arg.When = None,
        level: arg.Level = None,
        times: arg.Times = None,
        per_second: arg.PerSecond = None,
    ) -> JsonObject:
        """Make the broker fail on purpose: add a rule of this kind. Without criteria it matches everything.

        The rule takes effect at once, and ends with remove_fault, with a reset of everything, or as its
        fields say. Returns its name.
        """
        rule = {**locals()}  # every argument is a field of the API under its own name
        del rule["self"], rule["kind"]
        return await self._client.add_fault(kind, **given(**rule))

    async def list_faults(self) -> JsonObject:
        """List the fault rules, with the numbers of matched requests and of faults that fired."""
        return {"faults": await self._client.faults()}

    async def remove_fault(self, name: arg.KnownRule) -> JsonObject:
        """Remove a fault rule. Its late answers are sent, its ports reopen, its messages are delivered."""
        return await self._client.delete_fault(name)

    async def list_groups(self) -> JsonObject:
        """List the consumer groups with their lag, members, and messages in flight, retried and dead."""
        return {"groups": await self._client.groups()}

    async def list_leaks(self, group: arg.Group = None, wait: arg.RealWait = "0") -> JsonObject:
        """List messages that were delivered and that a consumer group has not acknowledged.

        Waits for the list to become empty: RocketMQ's clients commit their offsets only every 5s.
        """
        return {"leaks": await self._client.leaks(group, wait=wait)}

    async def read_story(self, max_events: arg.Most = 50) -> JsonObject:
        """Read the events since the last reset, one sentence each: messages, faults, clock moves.

        Call this first after a failed test. Times are on the broker's clock; the newest event comes last.
        """
        return {"story": _lines(await self._client.events(max_events=max_events))}

    async def read_events(self, max_events: arg.Most = 50) -> JsonObject:
        """Read the newest events since the last reset with all their fields, oldest first; see read_story."""
        return {"events": await self._client.events(max_events=max_events)}

    async def reset(
        self, topic: arg.SomeTopic = None, restart_clock: arg.RestartClock = False, forget: arg.Forget = False
    ) -> JsonObject:
        """Delete all messages, faults and events, or the messages of one topic. This cannot be undone.

        Topics, groups and the clock stay, unless asked otherwise.
        """
        return await self._client.reset(topic, clock="start" if restart_clock else None, forget=forget)


def _lines(events: list[JsonObject]) -> list[str]:
    """Write a line for each event, with its instant and its text."""
    return [f"{format_instant(event['at_ms'] * US_PER_MS)} {event['text']}" for event in events]
