"""Routes to watch the broker: a stream of server-sent events, and a search through stored records."""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.watching.live import LiveLevel, LiveState, Look, NextDue
from mocketmq.broker.watching.recent_lateness import SLOT_US, Spread
from mocketmq.broker.watching.stored_records import RecordSearch, SummaryKind
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import StoppingError
from mocketmq.http_api import web
from mocketmq.http_api.access import reads_messages
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.delayed import HeldByOut, held_out
from mocketmq.http_api.fields import LARGEST, Input, TopicName
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given

EVENT_STREAM: Final = "text/event-stream"
_HEADERS: Final = {
    "Content-Type": f"{EVENT_STREAM}; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # otherwise a proxy such as nginx would buffer events
}


class RecordOut(msgspec.Struct, frozen=True):
    """A summary of a stored record. `topic` is the destination, and `preview` the beginning of the body.

    `kind` is `sent`, `committed`, `parked`, `held` (by a fault, past its due time), `retried`, `delivered`,
    `forced` (delivered by hand), `cancelled`, `lost` (by a crash), `prepared` (a half message), `abandoned`
    (a half message that was never decided) or `dead`. `group` is the consumer group that gave the message
    back. `lateness_us` is null except for a delivery that was not forced.
    """

    log_offset: int
    kind: SummaryKind
    message_id: str
    topic: str
    queue_id: int
    lite_topic: str | None
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
    """Criteria for records; a record must meet all. `text` must occur in body, properties or unique key."""

    topic: TopicName | UnsetType = UNSET
    tag: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    text: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    after: Annotated[int, Meta(ge=-1, le=LARGEST, description="Only records above this log offset")] = -1
    before: (
        Annotated[int, Meta(ge=0, le=LARGEST, description="The previous page's `next_before`")] | UnsetType
    ) = UNSET
    max: Annotated[int, Meta(ge=1, le=500, description="Largest number of records")] = 100


class RecordsOut(msgspec.Struct, frozen=True):
    """Records, newest first. `next_before` is the next page's `before`, or null at the end of the search."""

    records: list[RecordOut]
    next_before: int | None


class LaneOut(msgspec.Struct, frozen=True):
    """A delay level or, if `level` is null, all messages with an absolute due time.

    `delivered` is the number of deliveries in the last minute of real time. `curve` lists instants in
    ascending order, each with the number of pending messages that are due by then; interpolate linearly
    between two points. Messages held by an injected fault count as pending and overdue; `held` names the
    rules.
    """

    level: int | None
    delay: str | None
    delay_ms: int | None
    pending: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    delivered: int
    curve: list[tuple[int, int]]
    held: list[HeldByOut]


class NextDueOut(msgspec.Struct, frozen=True):
    """The next due time, and the levels with messages that are due then. Level 0 means absolute due times.

    `record` is the first of these messages, or null if it has an absolute due time.
    """

    instant_ms: int
    levels: list[int]
    record: RecordOut | None


class SpreadOut(msgspec.Struct, frozen=True):
    """The lateness of `count` deliveries: of one `level` (0: absolute due times), or `age_s` seconds ago."""

    count: int
    p50_us: int
    p99_us: int
    max_us: int
    level: int | None = None
    age_s: int | None = None


class LatenessOut(msgspec.Struct, frozen=True):
    """The lateness in the last five minutes of real time: overall, by level, and in steps of five seconds.

    Forced deliveries, and messages that were held past their due time, do not count. Percentiles are accurate
    to 1 %; from 10 s on, to one second.
    """

    in_all: SpreadOut
    by_level: list[SpreadOut]
    in_time: list[SpreadOut]


class StateOut(msgspec.Struct, frozen=True):
    """All figures at one instant, `now_ms` on the broker's clock.

    The clock runs `rate` times as fast as the wall clock, which shows `wall_ms`. `commits` is the number of
    transactions since the broker started. While it stays the same, nothing in the store has changed.
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
    """The newest records since the previous event, newest first. `missed` is the number of omitted records.

    `next_offset` is the log offset that the next record will get. This offset is also the `id` of the event.
    """

    records: list[RecordOut]
    missed: int
    next_offset: int


class StreamIn(Input, frozen=True):
    """The position at which the stream begins."""

    after: (
        Annotated[
            int, Meta(ge=0, le=LARGEST, description="The last event's `id`, if no `Last-Event-ID` is sent")
        ]
        | UnsetType
    ) = UNSET


LIVE = RouteGroup("live", "The broker's live state and its newest records")


@Route(
    LIVE,
    "GET /v1/stream",
    "Watch the clock, the levels and new records",
    media_type=EVENT_STREAM,
    events={"state": StateOut, "arrivals": ArrivalsOut},
)
async def stream(call: ApiCall, where: StreamIn) -> web.StreamResponse:
    """Sends server-sent events: `state` with all current figures, and `arrivals` with new records.

    The first events come at once, later events at most three times a second, and a `state` at least every 10
    s. The stream ends when the client disconnects or the broker stops. A client that is slow, or reconnects
    with `Last-Event-ID`, gets the newest 50 records and the number of records that it missed.
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


@Route(LIVE, "GET /v1/records", "Search stored records, newest first", needs=reads_messages)
async def records(call: ApiCall, which: RecordsIn) -> RecordsOut:
    """Searches up to 20,000 log offsets per request. Bodies that a client compressed are not searched."""
    wanted = RecordSearch(given(which.topic), given(which.tag), given(which.key), given(which.text))
    found = await call.broker.stored_records.search(
        wanted, after=which.after, before=given(which.before), limit=which.max
    )
    return RecordsOut([answer_from(RecordOut, one) for one in found.records], found.next_before)


_encode = msgspec.json.Encoder().encode


def _events(look: Look) -> bytes:
    """Encode the events of a look. All streams share a look, so it is encoded only once."""
    if look.encoded is None:
        state = _event("state", _state(look.state), look.end)
        arrivals = ArrivalsOut([answer_from(RecordOut, one) for one in look.records], look.missed, look.end)
        news = _event("arrivals", arrivals, look.end) if look.records or look.missed else b""
        look.encoded = news + state
    return look.encoded


def _event(kind: str, data: msgspec.Struct, number: int) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), number, _encode(data))


def _state(state: LiveState) -> StateOut:
    late = state.lateness
    return answer_from(
        StateOut,
        state,
        next_due=None if state.next_due is None else _next_due(state.next_due),
        lanes=[_lane(lane) for lane in state.lanes],
        lateness=LatenessOut(
            _spread(late.in_all),
            [_spread(spread, level=level) for level, spread in late.by_level.items()],
            [_spread(spread, age_s=age * SLOT_US // 1_000_000) for age, spread in late.in_time],
        ),
        stored_per_s=round(state.stored_per_s, 1),
        delivered_per_s=round(state.delivered_per_s, 1),
    )


def _next_due(due: NextDue) -> NextDueOut:
    record = None if due.record is None else answer_from(RecordOut, due.record)
    return answer_from(NextDueOut, due, record=record)


def _lane(lane: LiveLevel) -> LaneOut:
    return answer_from(
        LaneOut,
        lane,
        delay=None if lane.delay_us is None else format_duration(lane.delay_us),
        curve=[(due_us // US_PER_MS, count) for due_us, count in lane.curve],
        held=held_out(lane.held),
    )


def _spread(spread: Spread, *, level: int | None = None, age_s: int | None = None) -> SpreadOut:
    return SpreadOut(*spread, level, age_s)
