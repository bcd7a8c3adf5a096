"""Applications of every protocol see each fault as docs/faults.md says; all run in parallel."""

import shlex
from typing import get_args

import pytest
import pytest_asyncio

from mocketmq.faults.rule import Kind
from tests.clients.faults import rules, table
from tests.clients.faults.applications import CLIENTS
from tests.clients.faults.play import seen_by
from tests.clients.seen import seen_by_all

HOW = "make interop ARGS=tests/clients/faults; python -m tests.clients.faults"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> table.Seen:
    """Results of all clients that can be built on this machine."""
    builds = {client: tried.build for client, tried in CLIENTS.items()}
    return await seen_by_all(builds, seen_by, table.save, tmp_path_factory)


@pytest.mark.interop
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_application_sees_the_documented_behaviour(seen: table.Seen, client: str) -> None:
    if client not in seen:
        pytest.skip("cannot be built here")
    assert seen[client] == table.documented()[client], HOW


def test_the_page_has_every_client_and_every_rule() -> None:
    seen = table.documented()
    assert table.PAGE.read_text("utf-8").endswith(table.page(seen).rstrip() + "\n"), HOW
    assert {client: list(found) for client, found in seen.items()} == {
        client: rules.rows(tried.door) for client, tried in CLIENTS.items()
    }


def test_every_kind_of_fault_is_tried() -> None:
    met = {rule.split()[0] for tried in CLIENTS.values() for rule in rules.rows(tried.door)}
    assert met == set(get_args(Kind)) - {rules.OF_SLAVES}


def test_rules_are_read_as_the_shell_reads_them() -> None:
    for tried in CLIENTS.values():
        for rule in rules.rows(tried.door):
            do, *pairs = shlex.split(rule)
            read = dict(pair.split("=", 1) for pair in pairs)
            assert {name: str(value) for name, value in rules.fields(rule).items()} == {"do": do, **read}
