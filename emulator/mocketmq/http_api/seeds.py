"""The route for seeds, and the seeds of the settings file."""

import asyncio
import re
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.seeding.seed import Planted
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    NoPermissionError,
    SeedError,
    SettingError,
    TopicNotFoundError,
)
from mocketmq.http_api.fields import NoInput
from mocketmq.http_api.route import ApiCall, ApiSender, Route, RouteGroup
from mocketmq.http_api.seed_message import SeedMessage, SeedProgress, SeedTables, lags_of, seeds_of, tables_of
from mocketmq.seed_file import SeedFile, SeedFormat
from mocketmq.settings import Settings

_TABLE: Final = re.compile(r"^(?:messages|progress)\[[0-9]+\](?:\.|: )")


class SeedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of seeds. Errors call it `name`, and give the line and the column."""

    text: str
    format: Annotated[SeedFormat, Meta(description="TOML, JSON lines or CSV")]
    name: Annotated[str, Meta(min_length=1, max_length=255)] = "seed"


class SeedIn(SeedTables, frozen=True, kw_only=True):
    """Messages with a past, and how far groups have consumed them; or a `file` that has up to 20,000 of them.

    All are stored in one transaction, or none. Topics and groups are created if the settings allow it.
    """

    messages: Annotated[list[SeedMessage], Meta(max_length=MAX_BATCH)] | UnsetType = UNSET
    progress: Annotated[list[SeedProgress], Meta(max_length=MAX_BATCH)] | UnsetType = UNSET
    file: SeedText | UnsetType = UNSET


class Seeded(msgspec.Struct, frozen=True):
    """The ids of the stored messages, in the order of the seed.

    `pending` of them wait for their due time. Failed messages have `retries`, and dead ones `dead_letters`.
    """

    message_ids: list[str]
    pending: int
    retries: int
    dead_letters: int


async def seed(call: ApiCall, _: NoInput, given: SeedIn) -> Seeded:
    """Answers once all messages are durable."""
    if given.file is UNSET:
        return _seeded(await _plant(call.sender, given))
    if given.messages or given.progress:
        raise InvalidArgumentError("file", "given", "either a file, or messages and progress")
    file = SeedFile(given.file.name, given.file.text, given.file.format)
    try:
        tables = tables_of(await asyncio.to_thread(file.tables))
        return _seeded(await _plant(call.sender, tables))
    except SeedError as error:
        field = getattr(error, "field", "")
        if not field:  # the syntax of the file is wrong
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


SEEDS = RouteGroup(
    "seeds",
    "Begin a test with messages that have a past",
    [
        Route(
            "POST",
            "/v1/seeds",
            seed,
            "Store messages with a past",
            Seeded,
            body=SeedIn,
            status=201,
            errors=(SeedError, NoPermissionError, TopicNotFoundError, GroupNotFoundError),
        ),
    ],
)
