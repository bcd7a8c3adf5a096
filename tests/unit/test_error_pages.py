"""docs/errors.md and its Chinese page list every error that a user can meet, with the codes of the code."""

import re
from collections.abc import Iterator

import pytest

from mocketmq import errors, front_doors  # front_doors imports every door, and so every HttpError
from mocketmq.cli.exit_codes import Exit, exit_of
from mocketmq.errors import EmulatorError, RefusedError, wire_codes
from mocketmq.grpc_proxy.codes import Code
from mocketmq.http_api.problem import HttpError, problem_of
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq_compat.aliyun_http.errors import STATUS
from tests.support.translations import ROOT, chinese_page, read

assert front_doors

PAGE = "docs/errors.md"
PAGES = (PAGE, chinese_page(PAGE))
AT_START = {"setting", "listen", "store-locked", "store-unreadable"}
"""Errors that end a broker before it serves: users see the exit code."""
NO_ERRORS = {"OK", "SUCCESS"}
INJECTED = {
    50_002: "HA_NOT_AVAILABLE",
    50_100: "NOT_IMPLEMENTED",
    50_401: "MASTER_PERSISTENCE_TIMEOUT",
    50_402: "SLAVE_PERSISTENCE_TIMEOUT",
}
"""Codes over gRPC that only injected faults have, by their names in RocketMQ."""
BASES = {EmulatorError, RefusedError}
"""Classes of which no request is refused with the class itself."""


def kinds(root: type[EmulatorError]) -> Iterator[type[EmulatorError]]:
    for child in root.__subclasses__():
        yield child
        yield from kinds(child)


def name_of(kind: type[EmulatorError]) -> str:
    return problem_of(kind.__new__(kind)).type.removeprefix("/problems/")


def rows(page: str, headings: tuple[int, ...]) -> Iterator[list[str]]:
    """Yield the cells of the tables below the headings with these numbers."""
    sections = re.split(r"^## .*$", read(page), flags=re.MULTILINE)
    for heading in headings:
        found = [line for line in sections[heading].splitlines() if line.startswith("|")]
        yield from ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found[2:])


def by_name(page: str, *headings: int) -> dict[str, list[str]]:
    """Return the rows by the code spans in their first cell."""
    return {name: cells[1:] for cells in rows(page, headings) for name in re.findall("`([^`]+)`", cells[0])}


@pytest.mark.parametrize("page", PAGES)
def test_every_error_of_the_broker_has_its_codes(page: str) -> None:
    expected = {}
    for kind in kinds(EmulatorError):
        if kind.__module__ == errors.__name__ and kind not in BASES and name_of(kind) not in AT_START:
            http, remoting, aliyun, grpc = wire_codes(kind.__new__(kind))
            expected[name_of(kind)] = f"{http} · {remoting} · `{aliyun}` · {grpc}"
    assert {name: cells[0] for name, cells in by_name(page, 2, 3).items()} == expected


@pytest.mark.parametrize("page", PAGES)
def test_every_error_at_the_start_has_its_exit_code(page: str) -> None:
    found = {name: int(cells[0]) for name, cells in by_name(page, 4).items()}
    of_class = {name_of(kind): kind for kind in kinds(EmulatorError) if kind.__module__ == errors.__name__}
    assert found == {name: exit_of(of_class[name].__new__(of_class[name])) for name in AT_START}


@pytest.mark.parametrize("page", PAGES)
def test_every_error_of_http_has_its_status(page: str) -> None:
    expected = {name_of(kind): str(getattr(kind, "status", None)) for kind in kinds(HttpError)}
    assert {name: cells[0] for name, cells in by_name(page, 5).items()} == expected


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("heading", "codes", "injected"), [(6, ResponseCode, {}), (7, Code, INJECTED)])
def test_every_code_is_listed(
    page: str, heading: int, codes: type[ResponseCode] | type[Code], injected: dict[int, str]
) -> None:
    named = {code.value: code.name for code in codes if code.name not in NO_ERRORS} | injected
    expected = [(str(code), f"`{name}`") for code, name in sorted(named.items())]
    assert [(cells[0], cells[1]) for cells in rows(page, (heading,))] == expected


@pytest.mark.parametrize("page", PAGES)
def test_every_code_of_aliyun_has_its_status(page: str) -> None:
    found: dict[str, str] = {}
    for cells in rows(page, (8,)):
        names, statuses = re.findall("`([^`]+)`", cells[0]), re.findall(r"\d+", cells[1])
        found |= dict(zip(names, statuses if len(statuses) > 1 else statuses * len(names), strict=True))
    assert found == {name: str(status) for name, status in STATUS.items()}


def test_every_exit_code_has_its_meaning() -> None:
    assert [(cells[0], cells[1]) for cells in rows(PAGE, (9,))] == [
        (str(one.value), one.meaning) for one in Exit
    ]


def test_both_pages_are_there() -> None:
    assert all((ROOT / page).exists() for page in PAGES)
