"""List what consumers have not acknowledged."""

import msgspec
from msgspec import UNSET, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.leaks import Leak
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.http_api.fields import GroupName, Input, WaitMs, bound_waits
from mocketmq.http_api.message_out import to_ms
from mocketmq.http_api.route import ApiCall, Route, given
from mocketmq.http_api.seen_message import Most, SeenOut, seen_out
from mocketmq.settings import Settings


class LeaksIn(Input, frozen=True):
    """A consumer group, or all, and how long to wait until there is no leak."""

    group: GroupName | UnsetType = UNSET
    max: Most = 100
    timeout_ms: WaitMs = 0


class LeakOut(msgspec.Struct, frozen=True):
    """A message that a group has not acknowledged: its `state` there, until `until_ms` if that is known."""

    group: str
    state: str
    times: int
    until_ms: int | None
    message: SeenOut
    text: str


class LeaksOut(msgspec.Struct, frozen=True):
    """How many leaks there are, and the newest of them."""

    count: int
    leaks: list[LeakOut]


async def leaks(call: ApiCall, which: LeaksIn) -> LeaksOut:
    """Messages delivered to topics that a group consumes, in flight or never acknowledged there."""
    wait_s = which.timeout_ms * US_PER_MS / US_PER_S
    count, found = await call.broker.leaks.find(given(which.group), which.max, wait_s)
    return LeaksOut(count, [_leak(call.broker, one) for one in found])


def _leak(broker: Broker, leak: Leak) -> LeakOut:
    standing, expectations = leak.standing, broker.expectations
    return LeakOut(
        leak.group,
        standing.at.value,
        standing.times,
        to_ms(standing.until_us),
        seen_out(broker, leak.seen),
        f"{expectations.name(leak.seen)}: {expectations.standing_in_words(leak.group, standing)}",
    )


def leaks_route(settings: Settings) -> Route:
    """The route, with its wait limited by the settings."""
    return Route(
        "GET",
        "/v1/leaks",
        leaks,
        "List what consumers have not acknowledged",
        LeaksOut,
        bound_waits(LeaksIn, settings.max_wait_us),
    )
