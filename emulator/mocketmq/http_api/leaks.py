"""The route for leaks, that is, delivered messages that consumers have not acknowledged."""

import msgspec
from msgspec import UNSET, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.leaks import Leak
from mocketmq.errors import GroupNotFoundError
from mocketmq.http_api.fields import Duration, GroupName, Input, WaitMs, bound_waits, wait_s
from mocketmq.http_api.message_out import Most, SeenOut, seen_out, to_ms
from mocketmq.http_api.route import ApiCall, Route, given
from mocketmq.settings import Settings


class LeaksIn(Input, frozen=True):
    """The consumer group, by default all, and how long to wait for the list to become empty.

    `timeout_ms` is `wait` in milliseconds; the duration takes precedence.
    """

    group: GroupName | UnsetType = UNSET
    max: Most = 100
    wait: Duration | UnsetType = UNSET
    timeout_ms: WaitMs = 0


class LeakOut(msgspec.Struct, frozen=True):
    """A message that a group has not acknowledged, with its `state` there, until `until_ms` if known."""

    group: str
    state: str
    times: int
    until_ms: int | None
    message: SeenOut
    text: str


class LeaksOut(msgspec.Struct, frozen=True):
    """The number of leaks, and the newest of them."""

    count: int
    leaks: list[LeakOut]


async def leaks(call: ApiCall, which: LeaksIn) -> LeaksOut:
    """Returns messages that are in flight or unacknowledged in a group that consumes their topic."""
    longest_s = wait_s(which.wait, which.timeout_ms, call.api.settings.max_wait_us)
    count, found = await call.broker.leaks.find_leaks(given(which.group), which.max, longest_s)
    return LeaksOut(count, [_leak(call.broker, one) for one in found])


def _leak(broker: Broker, leak: Leak) -> LeakOut:
    status, expectations = leak.status, broker.expectations
    return LeakOut(
        leak.group,
        status.state.value,
        status.times,
        to_ms(status.until_us),
        seen_out(broker, leak.seen),
        f"{expectations.name(leak.seen)}: {expectations.status_in_words(leak.group, status)}",
    )


def leaks_route(settings: Settings) -> Route:
    """The route, on which the wait is limited by the settings."""
    return Route(
        "GET",
        "/v1/leaks",
        leaks,
        "List messages that consumers have not acknowledged",
        LeaksOut,
        bound_waits(LeaksIn, settings.max_wait_us),
        errors=[GroupNotFoundError],
    )
