"""Fault rules: the kinds of fault, the fields of each kind, and the checks of these fields.

A rule is a flat object in JSON, TOML, Python and the shell. A field that its kind does not have is an error.
``injector`` applies rules to requests, ``schedule/held_deliveries`` to deliveries, ``broker/outage`` to
ports, and ``broker/replication`` to slaves.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.faults.refusals import refusal_names

Kind = Literal[
    "refuse",
    "late",
    "never",
    "twice",
    "close",
    "read-only",
    "disk-full",
    "name-server-away",
    "broker-away",
    "deliver-again",
    "deliver-late",
    "deliver-shuffled",
    "hold",
    "throttle",
    "replicate-late",
]
Operation = Literal["send", "receive", "ack", "give-back", "extend", "end-transaction", "route", "heartbeat"]
"""Names of operations that all protocols share."""
Stage = Literal["before", "after"]
OutageKind = Literal["name-server-away", "broker-away"]

_WHERE: Final = ("door", "broker", "operation", "topic", "group", "client")
_WRITES_WHERE: Final = ("door", "broker", "topic", "group", "client")
_DELIVERIES: Final = ("broker", "topic", "level")
_WHEN: Final = ("name", "from_ms", "to_ms", "lasts", "seed")
_OF_MANY: Final = ("next", "every", "probability")
_TAKES: Final[dict[str, tuple[str, ...]]] = {
    "refuse": (*_WHERE, "error"),
    "late": (*_WHERE, "by", "stage"),
    "never": (*_WHERE, "stage"),
    "twice": _WHERE,
    "close": (*_WHERE, "stage"),
    "read-only": _WRITES_WHERE,
    "disk-full": _WRITES_WHERE,
    "name-server-away": ("back_after",),
    "broker-away": ("door", "broker", "back_after"),
    "deliver-again": (*_DELIVERIES, "times", "by"),
    "deliver-late": (*_DELIVERIES, "by"),
    "deliver-shuffled": (*_DELIVERIES, "by"),
    "hold": _DELIVERIES,
    "throttle": (*_DELIVERIES, "per_second"),
    "replicate-late": ("broker", "by"),
}
"""The fields of each kind of fault, besides the fields of all kinds."""
_NEEDS: Final = {
    "refuse": "error",
    "late": "by",
    "deliver-late": "by",
    "deliver-shuffled": "by",
    "throttle": "per_second",
    "replicate-late": "by",
}
_ALLOWED: Final = {
    "by": "a duration, a distribution such as uniform(1s, 5s), or a list of durations",
    "per_second": "a whole number from 1 to 1000000",
}
"""Allowed values of mandatory fields, except ``error``."""
OF_DELIVERIES: Final = frozenset(kind for kind, fields in _TAKES.items() if "level" in fields)
"""The kinds of fault that affect deliveries."""
OF_OUTAGES: Final = frozenset(get_args(OutageKind))
"""The kinds of fault that close ports."""
OF_REPLICATION: Final = frozenset({"replicate-late"})
"""The kinds of fault that affect slaves."""

_Ms = Annotated[
    int,
    Meta(ge=0, le=LATEST_US // US_PER_MS, description="Milliseconds since the epoch, on the broker's clock"),
]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Pattern = Annotated[str, Meta(min_length=1, max_length=255, description="A name; * matches any characters")]

Lateness = Callable[[Random], int]
"""Draws a lateness in microseconds, 0 or more."""

_DELAYS: Final = (
    "a duration such as 2s; uniform(1s, 5s), normal(2s, 500ms) with this mean and deviation,"
    " exponential(2s) with this mean; or a list of durations to draw from"
)
_DISTRIBUTION: Final = re.compile(r"(uniform|normal|exponential)\(([^()]*)\)")
_ARGUMENTS: Final = {"uniform": 2, "normal": 2, "exponential": 1}


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to break (`do`), where, when and how; by default a rule matches everything, always.

    `door` is `remoting`, `grpc`, `http` or `aliyun`; `broker` is the name of a broker of the cluster.
    `operation` is a name that all doors share, such as `send`, or a door's own name for a request. `next`
    limits the rule to that many matches, `every` to each nth match, and `probability` to matches drawn with
    `seed`. `from_ms`, `to_ms` and `lasts` refer to the broker's clock. `by` is a duration, a distribution
    such as `uniform(1s, 5s)`, or a list of durations to draw from. `stage` says whether the fault happens
    before or after the request is carried out. `back_after` is the real time after which an outage ends and
    the ports are open again.
    """

    do: Kind
    name: (
        Annotated[str, Meta(pattern="^[a-zA-Z0-9_.-]{1,64}$", description="1 to 64 letters, digits, . _ -")]
        | UnsetType
    ) = UNSET
    door: str | UnsetType = UNSET
    broker: str | UnsetType = UNSET
    operation: str | UnsetType = UNSET
    topic: _Pattern | UnsetType = UNSET
    group: _Pattern | UnsetType = UNSET
    client: _Pattern | UnsetType = UNSET
    next: _Count | UnsetType = UNSET
    every: _Count | UnsetType = UNSET
    from_ms: _Ms | UnsetType = UNSET
    to_ms: _Ms | UnsetType = UNSET
    lasts: str | UnsetType = UNSET
    probability: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    by: (
        Annotated[str | Annotated[list[str], Meta(max_length=100_000)], Meta(description=_DELAYS)] | UnsetType
    ) = UNSET
    back_after: str | UnsetType = UNSET
    stage: Stage | UnsetType = UNSET
    level: Annotated[int, Meta(ge=1, le=1000, description="Number of the delay level")] | UnsetType = UNSET
    times: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    per_second: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET


def check_fields(rule: FaultRule) -> None:
    """Raise InvalidArgumentError for a field that the rule's kind does not have, or for a missing field."""
    takes = (*_WHEN, *(() if rule.do in OF_OUTAGES | OF_REPLICATION else _OF_MANY), *_TAKES[rule.do])
    for field in rule.__struct_fields__[1:]:
        value = getattr(rule, field)
        if value is not UNSET and field not in takes:
            raise InvalidArgumentError(field, value, f"with do {rule.do!r} only {', '.join(takes)}")
    needed = _NEEDS.get(rule.do)
    if needed and getattr(rule, needed) is UNSET:
        allowed = _ALLOWED.get(needed) or refusal_names(rule.door or None)
        raise InvalidArgumentError(needed, _Missing(), f"{allowed}; do {rule.do!r} requires it")
    if rule.lasts is not UNSET and rule.to_ms is not UNSET:
        raise InvalidArgumentError("lasts", rule.lasts, "either lasts or to_ms")


class _Missing:
    def __repr__(self) -> str:
        return "missing"


def given(rule: FaultRule) -> dict[str, Any]:
    """The fields that are set in the rule, as JSON values."""
    fields: dict[str, Any] = msgspec.to_builtins(rule)
    return fields


def lateness(by: str | Sequence[str], field: str = "by") -> Lateness:
    """Parse the lateness in a rule's ``by``, or in another ``field``. Raises InvalidArgumentError."""
    if not isinstance(by, str):
        if not by:
            raise InvalidArgumentError(field, by, _DELAYS)
        recorded = [parse_duration_us(each, field) for each in by]
        return lambda random: random.choice(recorded)
    call = _DISTRIBUTION.fullmatch(by.strip())
    if call is None:
        if "(" in by:
            raise InvalidArgumentError(field, by, _DELAYS)
        constant = parse_duration_us(by, field)
        return lambda _random: constant
    values = [parse_duration_us(each.strip(), field) for each in call[2].split(",")]
    if len(values) != _ARGUMENTS[call[1]] or (call[1] == "uniform" and values[0] > values[1]):
        raise InvalidArgumentError(field, by, _DELAYS)
    first, second = values[0], values[-1]
    if call[1] == "uniform":
        return lambda random: random.randint(first, second)
    if call[1] == "normal":
        return lambda random: max(0, round(random.gauss(first, second)))
    return lambda random: round(random.expovariate(1 / first)) if first else 0
