"""Fixtures and rules shared by all tests."""

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A slow machine is no defect.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests, as a report on a laptop has it."""
    from spark.session import session

    with session(master="local[2]") as made:
        yield made


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI everything that a test needs is there, so a skipped test is one that nobody would miss."""
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
