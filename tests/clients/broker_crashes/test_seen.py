"""Applications see a broker's crash as docs/brokers-and-clients.md says; all run in parallel."""

import re
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.broker_crashes import table
from tests.clients.broker_crashes.clients import AVOIDING, CLIENTS
from tests.clients.broker_crashes.play import Seen, seen_by
from tests.clients.seen import seen_by_all


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Results of all clients that can be built on this machine."""
    builds = {client: one.tried.build for client, one in CLIENTS.items()}
    return await seen_by_all(builds, seen_by, table.save, tmp_path_factory)


@pytest.mark.interop
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_application_sees_the_documented_behaviour(seen: dict[str, Seen], client: str) -> None:
    if client not in seen:
        pytest.skip("cannot be built here")
    documented = table.without_real_time(table.documented()[client])
    assert table.without_real_time(seen[client]) == documented, table.HOW


@pytest.mark.parametrize("page", [table.ENGLISH, table.CHINESE], ids=["english", "chinese"])
def test_the_rows_are_those_of_the_english_page(page: Path) -> None:
    assert page.read_text("utf-8") == table.with_rows(page, table.documented()), table.HOW


def test_the_page_has_every_client_in_every_situation() -> None:
    seen = table.documented()
    for client, has in CLIENTS.items():
        rows = {name: list(rows) for name, rows in seen[client].items()}
        assert rows.pop("storing") == (
            [] if has.is_grpc else [name for name in has.sends if AVOIDING not in name]
        )
        assert rows.pop("sends") == rows.pop("no broker") == [*has.sends]
        assert rows.pop("keyed sends") == [*has.keyed_sends]
        assert all(rows.values())


def test_every_cell_is_in_chinese() -> None:
    seen = table.documented()
    cells = {
        cell
        for of_client in seen.values()
        for rows in of_client.values()
        for row, found in rows.items()
        for cell in (row, *found)
    }
    shown = {cell: re.sub("`[^`]*`", "", table.in_chinese(cell)) for cell in cells}
    assert {cell for cell, text in shown.items() if re.search("[A-Za-rt-z]", text)} == set()
