"""Fixtures for the two brokers, and options that select the sequences played on them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.differential.duel import Duel
from tests.differential.grpc_known import GRPC_RULES
from tests.differential.grpc_side import GrpcSide
from tests.differential.known import RULES, Known, Rule
from tests.differential.op import Ends
from tests.differential.operations import Side
from tests.differential.pipelining import PipeliningSide
from tests.differential.pop_known import POP_RULES
from tests.differential.popping import PopSide
from tests.differential.values import LEVELS
from tests.support.process import broker_process
from tests.upstream.jars import V4, V5, V5_5, JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, running_upstream

_DUELS = pytest.StashKey[list[Duel]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select sequences."""
    group = parser.getgroup("differential")
    group.addoption("--seed", type=int, default=1, help="of the sequences (default: 1)")
    group.addoption("--sequences", type=int, default=200, help="how many (default: 200)")
    group.addoption("--first", type=int, default=0, help="number of the first one (default: 0)")
    group.addoption(
        "--rocketmq",
        choices=(V5, V5_5),
        default=V5,
        help=f"version of RocketMQ for pops, timers and gRPC (default: {V5})",
    )


@pytest.fixture(scope="session")
def jars() -> None:
    """Fetch both versions of RocketMQ unless they are already present."""
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
    theirs: Mapping[str, str],
    ours: Sequence[str] = (),
    proxy: Mapping[str, int] | None = None,
) -> AsyncIterator[Duel]:
    """Run RocketMQ with these settings (and its proxy's, if any), and mocketmq with these arguments."""
    with TemporaryDirectory(prefix="mocketmq-differential-") as folder:
        async with (
            running_upstream(
                Path(folder) / "upstream",
                version,
                {
                    **SMALL,
                    "messageDelayLevel": LEVELS,
                    "enablePropertyFilter": "true",
                    "brokerFastFailureEnable": "false",  # otherwise a slow machine would cause differences
                    **theirs,
                },
                proxy,
            ) as upstream,
            broker_process(
                *("--levels", LEVELS, "--auto-create-topics", "send", *ours),
                *("--data", f"{folder}/ours", "--log-level", "error"),
            ) as broker,
            Client(broker.url) as control,
        ):
            grpc_port = (await control.info())["doors"]["grpc"]["port"]
            duel = Duel(
                version,
                Ends(HOST, upstream.namesrv_port, upstream.broker_port, upstream.grpc_port),
                Ends(HOST, broker.name_server[1], broker.broker_port, grpc_port),
                Known(rules, version),
                side,
                [],
            )
            yield _noted(config, duel)
            assert not broker.stderr, broker.stderr


def _noted(config: pytest.Config, duel: Duel) -> Duel:
    """Register the duel for the summary."""
    config.stash.setdefault(_DUELS, []).append(duel)
    return duel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def duel(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Duel]:  # noqa: ARG001
    """Run RocketMQ 4 and mocketmq with the same level delays, each in its own processes."""
    theirs = {"transactionCheckInterval": "1000", "transactionCheckMax": "2"}
    checks = ("--transaction-check-interval", "1s", "--transaction-check-max", "2")
    async with _running_duel(
        request.config, V4, RULES, PipeliningSide, theirs, ("--transaction-timeout", "500ms", *checks)
    ) as duel:
        yield duel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pop_duel(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Duel]:  # noqa: ARG001
    """Run RocketMQ 5 and mocketmq. RocketMQ pops retries first, and looks for due retries every 100 ms.

    Its broker runs in the process of its proxy, for ``grpc_duel``.
    """
    theirs = {
        "recallMessageEnable": "true",
        "popFromRetryProbability": "100",
        "reviveQueueNum": "1",
        "reviveInterval": "100",
        "reviveMaxSlow": "1",
        "timerPrecisionMs": "100",
        "enableMixedMessageType": "true",
        "transactionCheckInterval": "1000",
    }
    checks = ("--transaction-check-interval", "1s", "--transaction-timeout", "6s", "--mixed-message-type")
    proxy = {"grpcClientConsumerMinLongPollingTimeoutMillis": 100}
    version = request.config.getoption("--rocketmq")
    async with _running_duel(request.config, version, POP_RULES, PopSide, theirs, checks, proxy) as duel:
        yield duel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def grpc_duel(pop_duel: Duel, request: pytest.FixtureRequest) -> Duel:
    """Run the two brokers of ``pop_duel`` over gRPC."""
    known = Known(GRPC_RULES, pop_duel.version)
    return _noted(request.config, pop_duel._replace(known=known, side=GrpcSide, cut_short=[]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how often each known difference occurred. A difference that never occurs may be gone."""
    for duel in config.stash.get(_DUELS, []):
        terminalreporter.section(f"differences from RocketMQ {duel.version} that docs/differences.md lists")
        for rule in duel.known.rules:
            terminalreporter.write_line(f"{duel.known.needed[rule.id] or 'never met':>9} {rule.id}")
        terminalreporter.write_line(
            f"{len(duel.cut_short):>9} plays cut short, as real time made an order chance"
        )
