"""Seeds: their fields, their route, and the seeds of the settings file."""

import asyncio
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.seeding.planting import Lag, Planted, Seed
from mocketmq.broker.seeding.seeder import MAX_SEEDS, seed_error
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.clock import US_PER_MS
from mocketmq.duration import parse_duration_us
from mocketmq.errors import (
    GroupNotFoundError,
    IllegalMessageError,
    InvalidArgumentError,
    NoPermissionError,
    RefusedError,
    SeedError,
    SettingError,
    TopicNotFoundError,
)
from mocketmq.event_loop import EventLoopTurns
from mocketmq.http_api.fields import Duration, GroupName, Input, NoInput, TopicName, matching
from mocketmq.http_api.invalid import converted
from mocketmq.http_api.route import ApiCall, ApiSender, Route, RouteGroup
from mocketmq.http_api.sending import MessageIn, PropertyText, message_of
from mocketmq.instant import parse_instant_ms
from mocketmq.message.properties import SHARDING_KEY
from mocketmq.settings import Settings

_AT_ONCE: Final = 256
"""Number of messages that are converted before other tasks get a turn."""
_DURATION: Final = Duration.__metadata__[0].pattern  # type: ignore[attr-defined]
_INSTANT: Final = (
    r"^[0-9]{1,15}$|^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{5,8}(?:[.,][0-9]{1,9})?(?:[Zz]|[+-][0-9:]{4,6})$"
)
_TABLE: Final = re.compile(r"^(?:messages|progress)\[[0-9]+\](?:\.|: )")

Moment = Annotated[
    str,
    matching(
        f"{_DURATION.replace('^', '^[+-]', 1)}|{_INSTANT}|^now$",
        "now, or a duration from now with its sign, such as -1d, -90s or +2h; or an instant with Z or an"
        " offset, such as 2030-01-31T08:00:00Z; or epoch milliseconds",
    ),
]
Attempts = Annotated[int, Meta(ge=1, le=1001, description="Number of attempts that have failed")]


class SeedMessage(MessageIn, frozen=True, kw_only=True):
    """A message with a past, with exactly one of `body`, `body_base64` and `body_json`.

    The message was sent at `sent_at`, by default now, and a relative delay counts from then. `deliver_at` is
    a due time on the broker's clock, whereas `start_deliver_ms` is on the wall clock. If the due time has
    passed, the message was delivered at that time. `ordering_key` becomes the property `__SHARDINGKEY`, and
    selects the queue unless `queue_id` is given.

    The groups in `consumed_by` have acknowledged the message. Each group in `failed` has failed to consume it
    the given number of times, and will get it again. For each group in `dead`, it is a dead letter after the
    given number of attempts.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        **{name: rule for name, rule in MessageIn.more_schema.items() if name != "oneOf"},
        "oneOf": [{"required": [name]} for name in ("body", "body_base64", "body_json")],
    }

    topic: TopicName
    body_json: Annotated[Any, Meta(description="Any value; the body is its JSON")] = UNSET
    sent_at: Moment | UnsetType = UNSET
    deliver_at: Moment | UnsetType = UNSET
    ordering_key: PropertyText | UnsetType = UNSET
    consumed_by: list[GroupName] | UnsetType = UNSET
    failed: dict[GroupName, Attempts] | UnsetType = UNSET
    dead: dict[GroupName, Attempts] | UnsetType = UNSET


class SeedProgress(Input, frozen=True):
    """The group has acknowledged all seeded messages of the topic, except for the newest `lag` messages."""

    group: GroupName
    topic: TopicName
    lag: Annotated[int, Meta(ge=0, le=MAX_SEEDS, description="Number of messages not acknowledged yet")]


class SeedTables(Input, frozen=True):
    """The messages of a seed, and the progress of groups."""

    messages: Annotated[list[SeedMessage], Meta(max_length=MAX_SEEDS)] | UnsetType = UNSET
    progress: Annotated[list[SeedProgress], Meta(max_length=MAX_SEEDS)] | UnsetType = UNSET


def tables_of(given: Mapping[str, object]) -> SeedTables:
    """Check tables that were read from a file. Raises SeedError."""
    try:
        return converted(given, SeedTables)
    except InvalidArgumentError as wrong:
        raise SeedError(wrong.field, str(wrong), wrong.allowed) from None


async def seeds_of(sender: ApiSender, tables: SeedTables) -> list[Seed]:
    """Convert messages for the broker. Raises SeedError."""
    found: list[Seed] = []
    turns, now_us = EventLoopTurns(), sender.broker.clock.now_us()
    for index, one in enumerate(tables.messages or ()):
        if index % _AT_ONCE == _AT_ONCE - 1:
            await turns.next_turn()
        try:
            found.append(_seed(sender, one, now_us))
        except RefusedError as error:
            raise seed_error(f"messages[{index}]", error) from None
    return found


def lags_of(tables: SeedTables) -> list[Lag]:
    """Convert progress for the broker."""
    return [Lag(one.group, one.topic, one.lag) for one in tables.progress or ()]


def _seed(sender: ApiSender, given: SeedMessage, now_us: int) -> Seed:
    bodies = (given.body, given.body_base64, given.body_json)
    if (count := sum(one is not UNSET for one in bodies)) != 1:
        fault = "given twice" if count else "missing"
        raise IllegalMessageError(
            "body", f"the body is {fault}; allowed: exactly one of body, body_base64 and body_json"
        )
    if given.body_json is not UNSET:
        text = msgspec.json.encode(given.body_json).decode()
        given = msgspec.structs.replace(given, body=text, body_json=UNSET)
    sent_us = due_us = None
    if given.sent_at is not UNSET:
        sent_us = _moment_us(given.sent_at, "sent_at", now_us)
        if sent_us > now_us:
            raise InvalidArgumentError("sent_at", given.sent_at, "now, or a time before")
    if given.deliver_at is not UNSET:
        if given.start_deliver_ms is not UNSET:
            raise InvalidArgumentError(
                "deliver_at", given.deliver_at, "no value, because start_deliver_ms is given"
            )
        due_us = _moment_us(given.deliver_at, "deliver_at", now_us)
        start_ms = max(-(-sender.broker.clock.to_wall(due_us) // US_PER_MS), 0)
        given = msgspec.structs.replace(given, start_deliver_ms=start_ms)
    message = message_of(sender, given.topic, given)
    ordering_key = None if given.ordering_key is UNSET else given.ordering_key
    if ordering_key is not None:
        message.properties[SHARDING_KEY] = ordering_key
    return Seed(
        message,
        sent_us,
        due_us,
        ordering_key,
        given.consumed_by or (),
        given.failed or {},
        given.dead or {},
    )


def _moment_us(text: str, field: str, now_us: int) -> int:
    """The instant that a text names. Raises InvalidArgumentError."""
    if text == "now":
        return now_us
    if text[0] in "+-":
        us = parse_duration_us(text[1:], field)
        return max(now_us + us if text[0] == "+" else now_us - us, 0)
    return parse_instant_ms(text, field) * US_PER_MS


class SeedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a seed file. Errors give the file's `name`, the line and the column."""

    text: str
    format: Annotated[Literal["toml", "jsonl", "csv"], Meta(description="TOML, JSON lines or CSV")]
    name: Annotated[str, Meta(min_length=1, max_length=255)] = "seed"


class SeedIn(SeedTables, frozen=True, kw_only=True):
    """Messages with a past, and the progress of groups; or a `file` of up to 20,000 messages.

    The broker stores either all of them or none, in one transaction. It creates topics and groups if the
    settings allow it.
    """

    messages: Annotated[list[SeedMessage], Meta(max_length=MAX_BATCH)] | UnsetType = UNSET
    progress: Annotated[list[SeedProgress], Meta(max_length=MAX_BATCH)] | UnsetType = UNSET
    file: SeedText | UnsetType = UNSET


class Seeded(msgspec.Struct, frozen=True):
    """The ids of the stored messages, in the order of the seed.

    `pending` is the number of messages that wait for their due time. `retries` and `dead_letters` are the
    numbers of copies that the broker stored of failed and of dead messages.
    """

    message_ids: list[str]
    pending: int
    retries: int
    dead_letters: int


SEEDS = RouteGroup("seeds", "Seeds: begin a test with messages that have a past")


@Route(
    SEEDS,
    "POST /v1/seeds",
    "Store messages with a past",
    status=201,
    errors=(SeedError, NoPermissionError, TopicNotFoundError, GroupNotFoundError),
)
async def seed(call: ApiCall, _: NoInput, given: SeedIn) -> Seeded:
    """Responds once all messages are durable."""
    if given.file is UNSET:
        return _seeded(await _plant(call.sender, given))
    if given.messages or given.progress:
        raise InvalidArgumentError("file", "given", "either a file, or messages and progress")
    from mocketmq.seed_file import SeedFile  # noqa: PLC0415 - most brokers read no file of seeds

    file = SeedFile(given.file.name, given.file.text, given.file.format)
    try:
        tables = tables_of(await asyncio.to_thread(file.tables))
        return _seeded(await _plant(call.sender, tables))
    except SeedError as error:
        field = getattr(error, "field", "")
        if not field:  # an error in the syntax of the file
            raise
        place = await asyncio.to_thread(file.place, field)
        raise SeedError(
            field, f"{place}: {_TABLE.sub('', str(error))}", getattr(error, "allowed", "")
        ) from None


async def plant_declared(broker: Broker, settings: Settings) -> None:
    """Store the seeds of the settings file, if the store is new. Raises SettingError."""
    if not (settings.messages or settings.progress) or not await broker.seeder.is_store_new():
        return
    sender = ApiSender(broker, settings, "127.0.0.1:0")
    try:
        given = {"messages": [*settings.messages], "progress": [*settings.progress]}
        tables = tables_of(msgspec.to_builtins(given))  # turns TOML's instants into text
        await broker.seeder.plant(await seeds_of(sender, tables), lags_of(tables), once=True)
    except SeedError as error:
        field, allowed = getattr(error, "field", ""), getattr(error, "allowed", "")
        reason = f"setting {error} (given by {settings.place_of(field)})"
        raise SettingError(field, None, allowed, reason=reason) from None


async def _plant(sender: ApiSender, tables: SeedTables) -> Planted:
    return await sender.broker.seeder.plant(await seeds_of(sender, tables), lags_of(tables))


def _seeded(planted: Planted) -> Seeded:
    return Seeded(list(planted.message_ids), planted.pending, planted.retries, planted.dead_letters)
