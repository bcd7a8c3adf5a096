"""Routes for the broker's clock: show it, and move it."""

import msgspec

from mocketmq.broker.clock_mover import ClockMove
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.duration import parse_duration_us
from mocketmq.errors import ClockError
from mocketmq.http_api.answer_fields import answer_from, to_ms
from mocketmq.http_api.fields import Duration, Input, InstantMs, NoInput
from mocketmq.http_api.route import ApiCall, Route, RouteGroup
from mocketmq.instant import format_instant


class ClockOut(msgspec.Struct, frozen=True):
    """The broker's time. `now` is ISO 8601 in UTC.

    `next_due_ms` is the instant at which the next pending message becomes visible. `pending` is the number of
    delayed messages that are not due yet. The clock runs `rate` times as fast as the wall clock, and is
    `ahead_ms` ahead of it. `moved` says whether the clock was moved since the last reset.
    """

    mode: str
    now_ms: int
    now: str
    next_due_ms: int | None
    pending: int
    rate: float
    ahead_ms: int
    moved: bool


class AdvanceIn(Input, frozen=True):
    """A duration to move the clock by."""

    by: Duration


class ToIn(Input, frozen=True):
    """An instant to move the clock to."""

    instant_ms: InstantMs


class Moved(msgspec.Struct, frozen=True):
    """A move of the clock. It delivered `fired` delayed messages; `pending` messages still wait."""

    from_ms: int
    now_ms: int
    fired: int
    pending: int
    next_due_ms: int | None


CLOCK = RouteGroup("clock", "The broker's clock: show it, move it forward")


@Route(CLOCK, "GET /v1/clock", "Show the clock")
async def clock(call: ApiCall, _: NoInput) -> ClockOut:
    """Returns the broker's time, and the instant at which the next pending message becomes visible."""
    broker = call.broker
    now_us = broker.clock.now_us()
    return ClockOut(
        broker.clock.mode,
        now_us // US_PER_MS,
        format_instant(now_us),
        to_ms(broker.pending.next_due_us),
        broker.pending.count,
        broker.clock.rate,
        (now_us - wall_us()) // US_PER_MS,
        await broker.mover.has_moved(),
    )


@Route(CLOCK, "POST /v1/clock/advance", "Move the clock by a duration", errors=[ClockError])
async def advance(call: ApiCall, _: NoInput, move: AdvanceIn) -> Moved:
    """Responds once every message that becomes due on the way is delivered."""
    return _moved(call, await call.broker.mover.advance(parse_duration_us(move.by, "by")))


@Route(CLOCK, "POST /v1/clock/to", "Move the clock to an instant", errors=[ClockError])
async def move_to(call: ApiCall, _: NoInput, move: ToIn) -> Moved:
    """Responds once every message that becomes due on the way is delivered."""
    return _moved(call, await call.broker.mover.move_to(move.instant_ms * US_PER_MS))


@Route(
    CLOCK,
    "POST /v1/clock/next",
    "Move the clock to the next due time",
    is_body_optional=True,
    errors=[ClockError],
)
async def move_to_next(call: ApiCall, _: NoInput, __: NoInput) -> Moved:
    """Responds once every message that is due at that instant is delivered."""
    return _moved(call, await call.broker.mover.move_to_next())


def _moved(call: ApiCall, move: ClockMove) -> Moved:
    return answer_from(Moved, move, pending=call.broker.pending.count)
