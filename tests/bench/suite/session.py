"""pytest plugin of the suite: its fixtures, and a file with the time that each test took.

``SUITE`` in the environment is JSON: where the broker is, and the file.
"""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pytest

from tests.bench.suite.driver import Driver, MovedDriver, WaitingDriver
from tests.bench.suite.shop import Shop

HALF_AN_HOUR_S: Final = 30 * 60

_numbers = itertools.count(1)
_result: dict[str, Any] = {"service_s": 0.0, "passed_s": 0.0, "tests_s": {}}


@pytest.fixture(scope="session")
def running_broker() -> Driver:
    """The broker of the run."""
    where: dict[str, Any] = json.loads(os.environ["SUITE"])
    if url := where["url"]:
        return MovedDriver(where["endpoint"], url)
    return WaitingDriver(where["endpoint"], where["pids"])


@pytest.fixture(scope="session")
def shop(running_broker: Driver) -> Iterator[Shop]:
    """The service, which runs as long as the suite."""
    began = perf_counter()
    shop = Shop(running_broker.endpoint, running_broker.delay_s(HALF_AN_HOUR_S))
    _result["service_s"] += perf_counter() - began
    yield shop
    ended = perf_counter()
    shop.close()
    _result["service_s"] += perf_counter() - ended


@pytest.fixture(autouse=True)
def broker(
    running_broker: Driver,
    shop: Shop,  # noqa: ARG001 - its start is no part of the first test
    request: pytest.FixtureRequest,
) -> Iterator[Driver]:
    """The broker, ready for a test; the test's time includes that."""
    began = perf_counter()
    running_broker.begin()
    yield running_broker
    _result["tests_s"][request.node.nodeid] = perf_counter() - began
    _result["passed_s"] += running_broker.passed_s()


@pytest.fixture
def order() -> str:
    """The id of a new order."""
    return f"order-{next(_numbers)}"


@pytest.fixture
def other_order() -> str:
    """The id of another new order."""
    return f"order-{next(_numbers)}"


def pytest_sessionfinish() -> None:
    """Write the file."""
    file: str = json.loads(os.environ["SUITE"])["file"]
    Path(file).write_text(json.dumps(_result))
