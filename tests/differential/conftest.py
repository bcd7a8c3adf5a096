"""Fixtures for the two brokers, and options that select the sequences played on them.

Starts of Java take longer than most tests, so tests share a running RocketMQ where its settings allow it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.differential.cuts import Reason
from tests.differential.duel import Duel
from tests.differential.grpc_known import GRPC_RULES
from tests.differential.grpc_side import GrpcSide
from tests.differential.known import RULES, Known, Rule
from tests.differential.newer_known import NEWER_RULES
from tests.differential.op import Ends
from tests.differential.operations import Side
from tests.differential.pipelining import PipeliningSide
from tests.differential.pop_known import POP_RULES
from tests.differential.popping import PopSide
from tests.differential.values import LEVELS
from tests.doors.remoting import producing
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.jars import V4, V5_5, VERSIONS_5, JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, Upstream, running_upstream

PRECISION_MS = 100
"""Precision to which RocketMQ 5 is configured to round due times."""

_DUELS = pytest.StashKey[list[Duel]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select sequences."""
    group = parser.getgroup("differential")
    group.addoption("--seed", type=int, help="of the sequences (default: another one in each run)")
    group.addoption("--sequences", type=int, default=200, help="how many (default: 200)")
    group.addoption("--first", type=int, default=0, help="number of the first one (default: 0)")
    group.addoption(
        "--rocketmq",
        choices=(V4, *VERSIONS_5),
        help="the only version to compare with (default: 4.9.7, and what only newer ones have on the others)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed if none is given."""
    if config.getoption("--seed", None) is None:
        config.option.seed = SystemRandom().randrange(1_000_000)


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed, by which a run can be repeated."""
    return f"sequences: --seed {config.option.seed}"


@pytest.fixture(scope="session")
def jars() -> None:
    """Fetch all versions of RocketMQ unless they are already present."""
    try:
        for version in (V4, *VERSIONS_5):
            class_path(version)
    except JarsMissingError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=(V4, V5_5))
async def plain(
    jars: None,  # noqa: ARG001
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Upstream]:
    """Run the oldest and the newest RocketMQ, each with its own delay levels and without mocketmq."""
    settings = {**SMALL, "brokerFastFailureEnable": "false"}
    home = tmp_path_factory.mktemp("plain") / "upstream"
    async with running_upstream(home, request.param, settings) as upstream:
        yield upstream


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
            for ends in (duel.theirs, duel.ours):
                await _send_first(ends)
            yield _noted(config, duel)
            assert not broker.stderr, broker.stderr


async def _send_first(ends: Ends) -> None:
    """Send the message with log offset 0, which in a committed message would mean that it was never half."""
    async with connected(ends.host, ends.broker_port) as client:
        await producing.sent(client, b"-1", topic="first")  # sequences read bodies as numbers


def _noted(config: pytest.Config, duel: Duel) -> Duel:
    """Register the duel for the summary."""
    config.stash.setdefault(_DUELS, []).append(duel)
    return duel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def duels(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Sequence[Duel]]:  # noqa: ARG001
    """Run RocketMQ 4, or 5.5.0 by ``--rocketmq``, beside a mocketmq that presents itself as the same version.

    Only one of them, as one more cluster takes memory and time. There is no duel for other versions.

    RocketMQ 5 writes decisions about transactions in batches, and loses changes of a route if another topic
    changes at the same time, unless topics are registered one by one.
    """
    theirs = {
        "transactionCheckInterval": "1000",
        "transactionCheckMax": "2",
        "transactionOpBatchInterval": "50",
        "enableSingleTopicRegister": "true",
    }
    checks = ("--transaction-check-interval", "1s", "--transaction-check-max", "2")
    ours = ("--transaction-timeout", "500ms", *checks)
    only = request.config.getoption("--rocketmq")
    versions = {V4: RULES, V5_5: (*RULES, *NEWER_RULES)}
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                _running_duel(
                    request.config,
                    version,
                    rules,
                    PipeliningSide,
                    theirs,
                    (*ours, "--server-version", version),
                )
            )
            for version, rules in versions.items()
            if version == (only or V4)
        ]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pop_duels(jars: None, request: pytest.FixtureRequest) -> AsyncIterator[Sequence[Duel]]:  # noqa: ARG001
    """Run each version of RocketMQ 5 beside a mocketmq, all at the same time, as sequences mostly wait.

    RocketMQ pops retries first, and looks for due retries every 100 ms. Its broker runs in the process of its
    proxy, for ``grpc_duels``.
    """
    theirs = {
        "recallMessageEnable": "true",
        "popFromRetryProbability": "100",
        "reviveQueueNum": "1",
        "reviveInterval": "100",
        "reviveMaxSlow": "1",
        "timerPrecisionMs": str(PRECISION_MS),
        "enableMixedMessageType": "true",
        "transactionCheckInterval": "1000",
    }
    checks = ("--transaction-check-interval", "1s", "--transaction-timeout", "6s", "--mixed-message-type")
    proxy = {"grpcClientConsumerMinLongPollingTimeoutMillis": 100}
    only = request.config.getoption("--rocketmq")
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                _running_duel(request.config, version, POP_RULES, PopSide, theirs, checks, proxy)
            )
            for version in VERSIONS_5
            if only in (None, version)
        ]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def grpc_duels(pop_duels: Sequence[Duel], request: pytest.FixtureRequest) -> Sequence[Duel]:
    """Run the brokers of ``pop_duels`` over gRPC."""
    return [
        _noted(
            request.config,
            duel._replace(known=Known(GRPC_RULES, duel.version), side=GrpcSide, cut_short=[]),
        )
        for duel in pop_duels
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how often each known difference occurred. A difference that never occurs may be gone."""
    for duel in config.stash.get(_DUELS, []):
        terminalreporter.section(f"differences from RocketMQ {duel.version} that docs/differences.md lists")
        for rule in duel.known.rules:
            terminalreporter.write_line(f"{duel.known.needed[rule.id] or 'never met':>9} {rule.id}")
        for reason in Reason:
            ops = [cut.op for cut in duel.cut_short if cut.reason is reason]
            terminalreporter.write_line(f"{len(ops):>9} plays cut short, {reason}")
            for op in ops if reason is Reason.LATE else ():
                terminalreporter.write_line(f"          {op}")
