"""The types of the arguments of ``inject_fault``, which are the fields of a fault rule."""

from typing import Annotated, Literal

from pydantic import Field

from mocketmq.faults.rule import Kind

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
TopicPattern = Annotated[str | None, Field(description="Only this topic; * stands for any letters")]
GroupPattern = Annotated[str | None, Field(description="Only this group; * stands for any letters")]
ClientPattern = Annotated[str | None, Field(description="Only this client id; * stands for any letters")]
Next = Annotated[int | None, Field(description="Only so many matches, then the rule is spent")]
Every = Annotated[int | None, Field(description="Only each nth match")]
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
BackAfter = Annotated[str | None, Field(description="End of an outage after this much real time; like `by`")]
When = Annotated[
    Literal["before", "after"] | None,
    Field(
        description="Whether the fault happens before the request is carried out, or after it (the default)"
    ),
]
Level = Annotated[int | None, Field(description="Only deliveries of this delay level")]
Times = Annotated[int | None, Field(description="For deliver-again: number of repeats")]
PerSecond = Annotated[int | None, Field(description="For throttle: deliveries in a second")]
