"""Fixtures and rules shared by all tests."""

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from mocketmq.store.disk import is_volatile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.api import Api

# Slow machines must not fail tests.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Scripts make background jobs ignore SIGINT, which the programs that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Many tests concern what a broker does for a disk, and it does nothing for a file system in memory.
if is_volatile(Path(tempfile.gettempdir())):
    on_disk = Path(__file__).parents[1] / "build" / "tmp"
    on_disk.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(on_disk))

os.environ["SPARK_CONF_DIR"] = str(Path(__file__).with_name("spark-conf"))


_LONGEST = 60
"""Number of characters of a folder's path up to which Chromium can make its sockets there."""


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove at the end what tests, and programs that they kill, leave in the folder for temporary files."""
    folder = str(tmp_path_factory.mktemp("tmp", numbered=False))
    with pytest.MonkeyPatch.context() as patch:
        if len(folder) <= _LONGEST:
            patch.setenv("TMPDIR", folder)
            patch.setattr(tempfile, "tempdir", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def api(tmp_path: Path) -> "AsyncIterator[Api]":
    """A broker on disk with a manual clock, and its JSON API."""
    from tests.support.api import running_api

    async with running_api(data=str(tmp_path / "data")) as api:
        yield api


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark session for all tests, as for a report of little data on a laptop."""
    from mocketmq_report.ledger.spark_rows import hurried
    from mocketmq_report.session import session

    with session(master="local[2]") as made, hurried(made):
        yield made


def _scope(nodeid: str) -> str:
    path = PurePath(nodeid.split("::", maxsplit=1)[0])
    if {"spark", "report"} & set(path.parts):
        return "spark"
    return "clients" if "clients" in path.parts else str(path)


class _Together(LoadScopeScheduling):  # type: ignore[misc]  # it is untyped
    """Keeps in one process, in sequence, the tests of a file, all Spark tests, and all client tests."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the largest groups, and end with quick tests, so that no process works long alone."""
    if not hasattr(config, "workerinput"):
        return  # there is one process
    counts = Counter(_scope(item.nodeid) for item in items)
    order = sorted(counts, key=lambda scope: (scope.startswith("tests/unit/"), -counts[scope]))
    places = {scope: place for place, scope in enumerate(order)}
    items.sort(key=lambda item: places[_scope(item.nodeid)])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Together:
    """Schedule ``pytest -n`` in our order, because xdist's ends with files of one test, some of them slow."""
    config.option.loadscopereorder = False
    return _Together(config, log)


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Fail a skipped test in CI, where all requirements are installed and nobody would notice the skip."""
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge a test that was skipped by a mark or from inside."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Judge a module that was skipped as a whole."""
    report = yield
    _fail_if_skipped(report)
    return report
