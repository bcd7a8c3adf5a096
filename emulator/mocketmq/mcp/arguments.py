"""The types of the tools' arguments, with the descriptions and bounds that agents see."""

from typing import Annotated, Any, Literal

from pydantic import Field

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
