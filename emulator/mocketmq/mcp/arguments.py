"""The types of the tools' arguments, with the descriptions and bounds that agents see."""

from typing import Annotated, Any, Literal

from pydantic import Field

from mocketmq.faults.rule import Kind

Topic = Annotated[str, Field(description="Name of a topic, such as orders")]
SomeTopic = Annotated[str | None, Field(description="Only this topic; all topics by default")]
Group = Annotated[str | None, Field(description="Consumer group; all groups by default")]
MessageId = Annotated[str, Field(description="A message_id, as send_message and find_messages return it")]

Delay = Annotated[
    str | None,
    Field(description="Delay on the broker's clock, such as 200ms, 30s, 1h30m or 2d; excludes other delays"),
]
DelayLevel = Annotated[
    int | None,
    Field(description="RocketMQ's delay level, from 1; by default 1 is 1s, 3 is 10s and 16 is 30m"),
]
DeliverAt = Annotated[
    str | None,
    Field(description="Absolute due time by the wall clock: 2030-01-31T08:00:00Z, or epoch milliseconds"),
]
MovedBy = Annotated[str, Field(description="Duration to move the clock by, such as 200ms, 30s, 1h30m or 2d")]
Moment = Annotated[str, Field(description="2030-01-31T08:00:00Z, or epoch milliseconds; not in the past")]

Body = Annotated[str, Field(description="The message's text, often JSON")]
BodyText = Annotated[str | None, Field(description="The message's exact text")]
Tag = Annotated[str | None, Field(description="The message's tag, by which consumers filter")]
Key = Annotated[str | None, Field(description="One of the message's keys")]
Keys = Annotated[list[str] | None, Field(description="Keys by which the message can be found later")]
Properties = Annotated[dict[str, str] | None, Field(description="User properties of the message")]
JsonPath = Annotated[
    dict[str, Any] | None,
    Field(description='Values inside a JSON body by path, such as {"$.order.lines[0].sku": "A-7"}'),
]

Stage = Annotated[
    Literal["sent", "delivered", "acknowledged", "dead"],
    Field(
        description="sent: stored, whether due or not. delivered: visible to consumers. acknowledged: by the"
        " group. dead: moved to the dead letters after the last retry"
    ),
]
Count = Annotated[int, Field(ge=1, description="Number of messages to wait for, since the last reset")]
RealWait = Annotated[
    str,
    Field(
        description="Longest wait in real time, such as 5s; the broker allows 30s unless configured otherwise"
    ),
]
Advance = Annotated[
    str | None,
    Field(
        description="While waiting, move the clock to each due time and retry of the messages, by at most"
        " this much, such as 1d; not for sent"
    ),
]
Most = Annotated[int, Field(ge=1, le=200, description="Largest number of entries to return")]
After = Annotated[int | None, Field(description="next_after of the previous page")]
RestartClock = Annotated[bool, Field(description="Set the clock back to the instant of its first start")]
Forget = Annotated[bool, Field(description="Delete topics and groups that no connected client uses, too")]

# The fields of a fault rule
FaultKind = Annotated[
    Kind,
    Field(
        description="refuse: answer with `error`. late: answer after `by`. never: do not answer. twice: send"
        " the answer twice. close: close the connection. read-only, disk-full: refuse sends. broker-away,"
        " name-server-away: close the ports. deliver-late, deliver-shuffled: due messages become visible"
        " later by `by`. hold: due messages wait for the rule's end. throttle: `per_second` become visible."
        " deliver-again: repeat each delivery `times` times. replicate-late: slaves are behind by `by`"
    ),
]
RuleName = Annotated[str | None, Field(description="Name of the rule; by default the broker picks one")]
KnownRule = Annotated[str, Field(description="Name of the rule, as inject_fault and list_faults return it")]
Door = Annotated[
    Literal["remoting", "grpc", "http", "aliyun"] | None,
    Field(description="Only requests by this protocol; all by default. These tools use http themselves"),
]
Broker = Annotated[
    str | None, Field(description="Only this broker of a cluster, such as broker-b; all by default")
]
Operation = Annotated[
    str | None,
    Field(
        description="Only these requests: send, receive, ack, give-back, extend, end-transaction, route,"
        " heartbeat, or a door's own name of a request"
    ),
]
TopicPattern = Annotated[str | None, Field(description="Only this topic; * matches any characters")]
GroupPattern = Annotated[str | None, Field(description="Only this group; * matches any characters")]
ClientPattern = Annotated[str | None, Field(description="Only this client id; * matches any characters")]
Next = Annotated[int | None, Field(description="Number of matches after which the rule is spent")]
Every = Annotated[int | None, Field(description="Only every nth match")]
Probability = Annotated[
    float | None, Field(description="Share of the matches, from 0 to 1, drawn with `seed`")
]
Seed = Annotated[int | None, Field(description="Seed of the draws, which makes them repeatable")]
FromMs = Annotated[
    int | None, Field(description="Start of the rule, epoch milliseconds on the broker's clock")
]
ToMs = Annotated[int | None, Field(description="End of the rule, epoch milliseconds on the broker's clock")]
Lasts = Annotated[str | None, Field(description="Duration of the rule on the broker's clock, such as 10m")]
ErrorName = Annotated[
    str | None, Field(description="For refuse: a RocketMQ response code, such as SYSTEM_BUSY")
]
By = Annotated[
    str | list[str] | None,
    Field(
        description="A duration such as 2s, a distribution such as uniform(1s, 5s), or a list of durations"
    ),
]
BackAfter = Annotated[
    str | None, Field(description="Real time after which an outage ends; the same forms as `by`")
]
When = Annotated[
    Literal["before", "after"] | None,
    Field(
        description="Whether the fault happens before the request is carried out, or after it (the default)"
    ),
]
Level = Annotated[int | None, Field(description="Only deliveries of this delay level")]
Times = Annotated[int | None, Field(description="For deliver-again: number of repeats")]
PerSecond = Annotated[int | None, Field(description="For throttle: deliveries in a second")]
