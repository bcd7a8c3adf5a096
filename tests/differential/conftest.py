"""The two brokers, and how much is played on them."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from tests.differential.duel import Duel
from tests.differential.known import RULES, Known
from tests.differential.operations import Ends
from tests.differential.values import LEVELS
from tests.process import broker_process
from tests.upstream.jars import JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, running_upstream

_DUEL = pytest.StashKey[Duel]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is played, and what."""
    group = parser.getgroup("differential")
    group.addoption("--seed", type=int, default=1, help="of the sequences (default: 1)")
    group.addoption("--sequences", type=int, default=200, help="how many (default: 200)")
    group.addoption("--first", type=int, default=0, help="number of the first one (default: 0)")


@pytest.fixture(scope="session")
def jars() -> None:
    """Fetch RocketMQ, unless that has been done."""
    try:
        class_path()
    except JarsMissingError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def duel(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Duel]:  # noqa: ARG001
    """RocketMQ and mocketmq, with the same delays of levels, each in its own processes."""
    with TemporaryDirectory(prefix="mocketmq-differential-") as folder:
        async with (
            running_upstream(
                Path(folder) / "upstream",
                **SMALL,
                messageDelayLevel=LEVELS,
                enablePropertyFilter="true",
                brokerFastFailureEnable="false",  # a slow machine is no difference
                transactionTimeOut="3600000",
            ) as theirs,
            broker_process(
                *("--levels", LEVELS, "--transaction-timeout", "1h"),
                *("--data", f"{folder}/ours", "--log-level", "error"),
            ) as ours,
        ):
            duel = request.config.stash[_DUEL] = Duel(
                Ends(HOST, theirs.namesrv_port, theirs.broker_port),
                Ends(HOST, ours.name_server[1], ours.broker_port),
                Known(),
            )
            yield duel
            assert not ours.stderr, ours.stderr


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which differences were met, and which were not: they may be gone."""
    if _DUEL not in config.stash:
        return
    needed = config.stash[_DUEL].known.needed
    terminalreporter.section("differences that docs/differences.md lists")
    for rule in RULES:
        terminalreporter.write_line(f"{needed[rule.id] or 'never met':>9} {rule.id}")
