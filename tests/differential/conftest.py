"""The two brokers, and options for what is played on them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from tests.differential.duel import Duel
from tests.differential.known import RULES, Known, Rule
from tests.differential.op import Ends
from tests.differential.operations import Side
from tests.differential.pipelining import PipeliningSide
from tests.differential.pop_known import POP_RULES
from tests.differential.popping import PopSide
from tests.differential.values import LEVELS
from tests.support.process import broker_process
from tests.upstream.jars import V4, V5, JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, running_upstream

_DUELS = pytest.StashKey[list[Duel]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options: which sequences are played."""
    group = parser.getgroup("differential")
    group.addoption("--seed", type=int, default=1, help="of the sequences (default: 1)")
    group.addoption("--sequences", type=int, default=200, help="how many (default: 200)")
    group.addoption("--first", type=int, default=0, help="number of the first one (default: 0)")


@pytest.fixture(scope="session")
def jars() -> None:
    """Fetch both RocketMQs, unless that has been done."""
    try:
        class_path(V4)
        class_path(V5)
    except JarsMissingError as error:
        pytest.skip(str(error))


@asynccontextmanager
async def _running_duel(
    config: pytest.Config,
    version: str,
    rules: Sequence[Rule],
    side: type[Side],
    ours: Sequence[str] = (),
    **theirs: str,
) -> AsyncIterator[Duel]:
    """A RocketMQ with these settings, and mocketmq with these arguments."""
    with TemporaryDirectory(prefix="mocketmq-differential-") as folder:
        async with (
            running_upstream(
                Path(folder) / "upstream",
                version,
                **SMALL,
                messageDelayLevel=LEVELS,
                enablePropertyFilter="true",
                brokerFastFailureEnable="false",  # a slow machine is no difference
                **theirs,
            ) as upstream,
            broker_process(
                *("--levels", LEVELS, "--auto-create-topics", "send", *ours),
                *("--data", f"{folder}/ours", "--log-level", "error"),
            ) as broker,
        ):
            duel = Duel(
                Ends(HOST, upstream.namesrv_port, upstream.broker_port),
                Ends(HOST, broker.name_server[1], broker.broker_port),
                Known(rules),
                side,
                [],
            )
            config.stash.setdefault(_DUELS, []).append(duel)
            yield duel
            assert not broker.stderr, broker.stderr


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def duel(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Duel]:  # noqa: ARG001
    """RocketMQ 4 and mocketmq, with the same delays of levels, each in its own processes."""
    theirs = {"transactionCheckInterval": "1000", "transactionCheckMax": "2"}
    checks = ("--transaction-check-interval", "1s", "--transaction-check-max", "2")
    async with _running_duel(
        request.config, V4, RULES, PipeliningSide, ("--transaction-timeout", "500ms", *checks), **theirs
    ) as duel:
        yield duel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pop_duel(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Duel]:  # noqa: ARG001
    """RocketMQ 5 and mocketmq. RocketMQ always pops retries first, and looks for due ones every 100 ms."""
    theirs = {
        "recallMessageEnable": "true",
        "popFromRetryProbability": "100",
        "reviveQueueNum": "1",
        "reviveInterval": "100",
        "reviveMaxSlow": "1",
        "timerPrecisionMs": "100",
    }
    async with _running_duel(request.config, V5, POP_RULES, PopSide, **theirs) as duel:
        yield duel


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how often each known difference was met. One that is never met may be gone."""
    for duel in config.stash.get(_DUELS, []):
        terminalreporter.section("differences that docs/differences.md lists")
        for rule in duel.known.rules:
            terminalreporter.write_line(f"{duel.known.needed[rule.id] or 'never met':>9} {rule.id}")
        terminalreporter.write_line(
            f"{len(duel.cut_short):>9} plays cut short, as real time made an order chance"
        )
