"""Routes for packs: save the broker's state and the story of a failed test in a file, show an opened pack."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from mocketmq.broker.packs.pack_file import MAX_EVENTS, MAX_FAILURE, MAX_TEST, Pack, PackError
from mocketmq.broker.packs.packed_settings import shown_settings
from mocketmq.broker.packs.packing import OPENED, FailedTest, StoryLine, make_pack
from mocketmq.clock import US_PER_MS
from mocketmq.errors import SnapshotQuotaError
from mocketmq.http_api import web
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.message_out import EventOut
from mocketmq.http_api.route import ApiCall, Route, RouteGroup

PACK: Final = "application/zip"
_FIELDS: Final = dict.fromkeys(EventOut.__struct_fields__)


class PackIn(Input, frozen=True):
    """What failed: the name of the `test`, and the text of its `failure`, such as a stack trace."""

    test: Annotated[str, Meta(max_length=MAX_TEST)] = ""
    failure: Annotated[str, Meta(max_length=MAX_FAILURE)] = ""


class PackOut(msgspec.Struct, frozen=True):
    """The pack from which this broker was started, and the `file` that contains it.

    A broker of this `version` made the pack at `packed_ms` by the wall clock, when its own clock showed
    `clock_ms`. `events` are the broker's events before that, oldest first. A restore of the snapshot named
    `snapshot` returns to that instant.
    """

    file: str
    version: str
    packed_ms: int
    clock_ms: int
    test: str
    failure: str
    settings: dict[str, Any]
    events: list[EventOut]
    snapshot: str


class OpenedPack(msgspec.Struct, frozen=True):
    """The pack, or null if the broker was not started from a pack."""

    pack: PackOut | None


PACKS = RouteGroup("packs", "Packs: the state of a failed test in a file")


@Route(
    PACKS,
    "POST /v1/pack",
    "Make a pack of the broker's state and events",
    media_type=PACK,
    is_body_optional=True,
    errors=[SnapshotQuotaError],
)
async def pack(call: ApiCall, _: NoInput, given: PackIn) -> web.StreamResponse:
    """Returns a ZIP archive: a snapshot of the whole state, the newest events and deliveries, the settings.

    Secrets in the settings are masked, but message bodies are not. `mocketmq open` starts a broker from the
    archive. Clients notice nothing, as with a snapshot.
    """
    async with call.api.packing:
        events, _more = await call.broker.events.newest(MAX_EVENTS)
        story = [
            StoryLine(one.at_us, one.text, msgspec.json.encode(answer_from(EventOut, one))) for one in events
        ]
        captured = await call.broker.snapshots.capture()
        settings, failed = shown_settings(call.api.settings), FailedTest(given.test, given.failure)
        file = await asyncio.to_thread(make_pack, captured.state, story, settings, failed)
        return await load_of(call.request).send_in_pieces(file, PACK)


@Route(PACKS, "GET /v1/pack", "Show the opened pack")
async def opened_pack(call: ApiCall, _: NoInput) -> OpenedPack:
    """Returns the pack from which `mocketmq open` started this broker."""
    opened = call.broker.opened_pack
    return OpenedPack(None if opened is None else _out(opened))


def _out(opened: Pack) -> PackOut:
    return answer_from(
        PackOut,
        opened.manifest,
        file=opened.name,
        clock_ms=opened.manifest.now_us // US_PER_MS,
        failure=opened.failure,
        settings=opened.settings,
        events=events_of(opened),
        snapshot=OPENED,
    )


def events_of(opened: Pack) -> list[EventOut]:
    """The events of a pack. Raises PackError for one that this version cannot show."""
    try:
        return msgspec.convert([_FIELDS | event for event in opened.events], list[EventOut])
    except msgspec.ValidationError as error:
        raise PackError(f"{opened.name} contains events that this version cannot read: {error}") from None
