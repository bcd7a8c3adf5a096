"""Watch the broker: one stream of server-sent events, and a search through what is stored."""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.watching.live import LiveLevel, LiveState, Look, NextDue
from mocketmq.broker.watching.recent_lateness import SLOT_US, Spread
from mocketmq.broker.watching.stored_records import RecordKind, RecordSearch, RecordSummary
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import StoppingError
from mocketmq.http_api.fields import LARGEST, Input, TopicName
from mocketmq.http_api.message_out import to_ms
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given

EVENT_STREAM: Final = "text/event-stream"
_HEADERS: Final = {
    "Content-Type": f"{EVENT_STREAM}; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy such as nginx would keep events back
}


class RecordOut(msgspec.Struct, frozen=True):
    """A stored record in a line. `topic` is where it goes or went, `preview` the beginning of its body.

    `kind` is `sent`, `committed`, `parked`, `retried`, `delivered`, `forced` (delivered by hand),
    `cancelled`, `prepared` (a half message) or `dead`. `group` is the one that gave the message back.
    `lateness_us` is that of a delivery by the broker itself.
    """

    log_offset: int
    kind: RecordKind
    message_id: str
    topic: str
    queue_id: int
    group: str | None
    tag: str | None
    keys: tuple[str, ...]
    store_ms: int
    due_ms: int | None
    level: int | None
    lateness_us: int | None
    size: int
    preview: str


class RecordsIn(Input, frozen=True):
    """Which records. All that is given has to hold; `text` is in body, properties or unique key."""

    topic: TopicName | UnsetType = UNSET
    tag: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    text: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    after: Annotated[int, Meta(ge=-1, le=LARGEST, description="Only records above this log offset")] = -1
    before: (
        Annotated[int, Meta(ge=0, le=LARGEST, description="The `next_before` of the page before")] | UnsetType
    ) = UNSET
    max: Annotated[int, Meta(ge=1, le=500, description="Most records to return")] = 100


class RecordsOut(msgspec.Struct, frozen=True):
    """Records, newest first. With `before=next_before` the search goes on; it is null at the end."""

    records: list[RecordOut]
    next_before: int | None


class LaneOut(msgspec.Struct, frozen=True):
    """A delay level; without `level`, all messages with an absolute due time.

    `delivered` counts the last minute of real time. `curve` lists instants, in order, and how many of those
    that wait are due by then; interpolate linearly between two points. Messages held by an injected fault
    count as pending and overdue.
    """

    level: int | None
    delay: str | None
    delay_ms: int | None
    pending: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    delivered: int
    curve: list[tuple[int, int]]


class NextDueOut(msgspec.Struct, frozen=True):
    """When the next message is due, in which levels (0: an absolute due time), and the first one's record."""

    instant_ms: int
    levels: list[int]
    record: RecordOut | None


class SpreadOut(msgspec.Struct, frozen=True):
    """How late `count` deliveries were. `level` is 0 for absolute due times; `age_s` is how long ago."""

    count: int
    p50_us: int
    p99_us: int
    max_us: int
    level: int | None = None
    age_s: int | None = None


class LatenessOut(msgspec.Struct, frozen=True):
    """The lateness of the last five minutes of real time: in all, by level, and in steps of five seconds.

    Without deliveries by hand, and those that a fault put off. Percentiles are right to one in a hundred.
    """

    in_all: SpreadOut
    by_level: list[SpreadOut]
    in_time: list[SpreadOut]


class StateOut(msgspec.Struct, frozen=True):
    """All figures at one instant. The clock runs `rate` times as fast as the wall clock `wall_ms`.

    `commits` counts transactions: while it stays the same, nothing in the store has changed.
    """

    now_ms: int
    wall_ms: int
    mode: str
    rate: float
    pending: int
    next_due: NextDueOut | None
    lanes: list[LaneOut]
    lateness: LatenessOut
    stored_per_s: float
    delivered_per_s: float
    commits: int


class ArrivalsOut(msgspec.Struct, frozen=True):
    """The newest records since the event before, newest first, and how many more were `missed`.

    `next_offset` is the log offset that the next record will get: the `id` of the event.
    """

    records: list[RecordOut]
    missed: int
    next_offset: int


class StreamIn(Input, frozen=True):
    """Where to go on."""

    after: (
        Annotated[
            int, Meta(ge=0, le=LARGEST, description="As the header `Last-Event-ID`: the last event's `id`")
        ]
        | UnsetType
    ) = UNSET


async def stream(call: ApiCall, where: StreamIn) -> web.StreamResponse:
    """Server-sent events until the client goes or the broker stops: `state`, and `arrivals` after stores.

    The first ones come at once, then at most three in a second, and a `state` at least every 10 s. Each
    `state` replaces the one before. A reader who is slow, or comes back with `Last-Event-ID`, is told of the
    newest 50 records and how many it missed.
    """
    if not call.api.is_ready:
        raise StoppingError("the broker is starting or stopping")
    response = web.StreamResponse(headers=_HEADERS)
    with suppress(ConnectionError):
        await response.prepare(call.request)
        async with aclosing(call.broker.live.watch(_after(call, where))) as looks:
            async for look in looks:
                await response.write(_events(look))
                await asyncio.sleep(0)
    return response


def _after(call: ApiCall, where: StreamIn) -> int | None:
    last = call.request.headers.get("Last-Event-ID", "")
    return int(last) if last.isdecimal() and len(last) < 19 else given(where.after)


async def records(call: ApiCall, which: RecordsIn) -> RecordsOut:
    """Searches up to 20,000 log offsets at a time. Bodies that a client compressed are not looked into."""
    wanted = RecordSearch(given(which.topic), given(which.tag), given(which.key), given(which.text))
    found = await call.broker.stored_records.search(
        wanted, after=which.after, before=given(which.before), limit=which.max
    )
    return RecordsOut([_record(one) for one in found.records], found.next_before)


_encode = msgspec.json.Encoder().encode


def _events(look: Look) -> bytes:
    """The events of a look. Those who watch together share it, so it is written once."""
    if look.encoded is None:
        state = _event("state", _state(look.state), look.end)
        arrivals = ArrivalsOut([_record(one) for one in look.records], look.missed, look.end)
        news = _event("arrivals", arrivals, look.end) if look.records or look.missed else b""
        look.encoded = news + state
    return look.encoded


def _event(kind: str, data: msgspec.Struct, number: int) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), number, _encode(data))


def _record(one: RecordSummary) -> RecordOut:
    fields = one._asdict()
    store_us, due_us = fields.pop("store_us"), fields.pop("due_us")
    return RecordOut(**fields, store_ms=store_us // US_PER_MS, due_ms=to_ms(due_us))


def _state(state: LiveState) -> StateOut:
    late = state.lateness
    return StateOut(
        state.now_us // US_PER_MS,
        state.wall_us // US_PER_MS,
        state.mode,
        state.rate,
        state.pending,
        None if state.next_due is None else _next_due(state.next_due),
        [_lane(lane) for lane in state.lanes],
        LatenessOut(
            _spread(late.in_all),
            [_spread(spread, level=level) for level, spread in late.by_level.items()],
            [_spread(spread, age_s=age * SLOT_US // 1_000_000) for age, spread in late.in_time],
        ),
        round(state.stored_per_s, 1),
        round(state.delivered_per_s, 1),
        state.commits,
    )


def _next_due(due: NextDue) -> NextDueOut:
    record = None if due.record is None else _record(due.record)
    return NextDueOut(due.instant_us // US_PER_MS, list(due.levels), record)


def _lane(lane: LiveLevel) -> LaneOut:
    return LaneOut(
        lane.level,
        None if lane.delay_us is None else format_duration(lane.delay_us),
        to_ms(lane.delay_us),
        lane.pending,
        to_ms(lane.next_due_us),
        to_ms(lane.oldest_overdue_us),
        lane.delivered,
        [(due_us // US_PER_MS, count) for due_us, count in lane.curve],
    )


def _spread(spread: Spread, *, level: int | None = None, age_s: int | None = None) -> SpreadOut:
    return SpreadOut(*spread, level, age_s)


LIVE = RouteGroup(
    "live",
    "What the broker does now",
    [
        Route(
            "GET",
            "/v1/stream",
            stream,
            "Watch the clock, the levels and what arrives",
            EVENT_STREAM,
            StreamIn,
            events={"state": StateOut, "arrivals": ArrivalsOut},
        ),
        Route("GET", "/v1/records", records, "Search stored records, newest first", RecordsOut, RecordsIn),
    ],
)
