"""The pytest plugin: fixtures ``mocketmq``, ``mocketmq_async`` and ``mocketmq_session``, a marker, settings.

pytest loads the plugin in every project where mocketmq is installed. The plugin therefore imports only pytest
and the standard library, and everything else when a test first uses a fixture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mocketmq.testing.async_broker import AsyncBroker
    from mocketmq.testing.broker import Broker
    from mocketmq.testing.brokers import Brokers

_TEXTS = {
    "clock": "clock of the broker: manual, real or xN (default: manual)",
    "profile": "profile of the broker (default: exact)",
    "levels": "delay levels of the broker, such as: 1s 5s 10s (default: RocketMQ's 18)",
    "brokers": "number of brokers in the cluster (default: 1)",
    "snapshot": "snapshot that each test begins with, instead of an empty broker",
    "image": "container image of the broker, run by docker or podman",
    "start_timeout": "real time within which the broker must be ready (default: 60s)",
}
_ARGS = {
    "command": "command that runs `mocketmq`, such as: uvx mocketmq",
    "install": "arguments of `pip install` for a separate environment of the broker, created once",
    "options": "more options of `mocketmq serve`, such as: --acl tests/plain_acl.yml",
    "topics": "topics that exist in each test",
    "seed": "files of seeds whose messages each test begins with",
}
_SWITCHES = {
    "strict": "fail tests that leave messages which their consumers have not acknowledged",
    "forget": "let each test begin without the topics and groups of other tests, as if the broker were new",
}
"""Settings by name without the prefix ``mocketmq_``: texts, arguments split as by a shell, and booleans."""

_brokers = pytest.StashKey["Brokers"]()
_broker = pytest.StashKey["Broker"]()
_has_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the settings."""
    group = parser.getgroup("mocketmq", "RocketMQ for tests")
    group.addoption(
        "--mocketmq-url",
        metavar="URL",
        help="use the broker at this address instead of starting one; tests reset it",
    )
    group.addoption(
        "--mocketmq-pack",
        metavar="DIR",
        help="pack the broker's state at each failed test into a file in DIR, for `mocketmq open`",
    )
    for name, text in _TEXTS.items():
        parser.addini(f"mocketmq_{name}", f"mocketmq: {text}", default="")
    for name, text in _ARGS.items():
        parser.addini(f"mocketmq_{name}", f"mocketmq: {text}", "args", default=[])
    for name, text in _SWITCHES.items():
        parser.addini(f"mocketmq_{name}", f"mocketmq: {text}", "bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "mocketmq(clock=…, profile=…, levels=…, brokers=…, topics=[…], seed=…, snapshot=…, strict=…,"
        " forget=…): the broker that the test needs, where it is not the one of the settings mocketmq_clock,"
        " mocketmq_profile, …; topics and seeds are added.",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the brokers, also after Ctrl-C."""
    if (brokers := config.stash.get(_brokers, None)) is not None:
        brokers.close()


@pytest.fixture
def mocketmq(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A RocketMQ broker for this test: empty, with its own address, and a clock that the test moves.

    Give `mocketmq.name_server` to the application, send and receive, and move time:
    `mocketmq.clock.advance("30m")`. One broker per worker, reset before each test.
    """
    from mocketmq.errors import EmulatorError  # noqa: PLC0415 - see above
    from mocketmq.testing import failed_test, options  # noqa: PLC0415

    wanted = options.wanted(request.node)
    broker = _brokers_of(request.config).ready(wanted.start)
    request.node.stash[_broker] = broker
    request.node.stash[_has_failed] = False  # an earlier run of this test may have failed
    try:
        broker.reset_for_test(wanted.topics, wanted.seeds, forget=wanted.forgets, snapshot=wanted.snapshot)
    except EmulatorError as error:
        pytest.fail(str(error), pytrace=False)
    yield broker
    has_failed = request.node.stash.get(_has_failed, False)
    if not has_failed and (why := failed_test.reason_to_fail(broker, is_strict=wanted.is_strict)):
        pytest.fail(why, pytrace=False)


@pytest.fixture
def mocketmq_async(mocketmq: Broker) -> AsyncBroker:
    """The broker of `mocketmq` for async tests: the same operations, to be awaited."""
    from mocketmq.testing.async_broker import AsyncBroker  # noqa: PLC0415 - see above

    return AsyncBroker(mocketmq)


@pytest.fixture(scope="session")
def mocketmq_session(request: pytest.FixtureRequest) -> Broker:
    """The broker that `mocketmq` resets, for fixtures that outlive a test; they mostly need `.name_server`.

    This is the broker with the options of pytest's settings; a test with a marker may use another broker.
    """
    from mocketmq.testing import options  # noqa: PLC0415 - see above

    return _brokers_of(request.config).ready(options.of_settings(request.config))


@pytest.hookimpl(hookwrapper=True)  # pytest 7 supports no other wrappers
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the broker's events to the report of a failed test."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    broker = item.stash.get(_broker, None)
    if report.failed and broker is not None and not (report.when == "teardown" and broker.has_died):
        from mocketmq.testing import failed_test  # noqa: PLC0415 - see above

        is_first = not item.stash.get(_has_failed, False)
        item.stash[_has_failed] = True
        report.sections.append(("mocketmq", failed_test.story_of(broker)))
        folder = item.config.getoption("mocketmq_pack")
        if folder and is_first:
            place = item.config.invocation_params.dir / folder
            said = failed_test.pack_failure(broker, place, item.nodeid, report.longreprtext)
            report.sections.append(("mocketmq pack", said))


def _brokers_of(config: pytest.Config) -> Brokers:
    """Return the brokers of this worker."""
    if _brokers not in config.stash:
        from mocketmq.testing.brokers import Brokers  # noqa: PLC0415 - see above

        config.stash[_brokers] = Brokers(config)
    return config.stash[_brokers]
