"""One run of the suite on one broker: time, memory and CPU, from the broker's start to the suite's end."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, NamedTuple

import psutil

from mocketmq.remoting.wire.codes import RequestCode
from tests.bench.floors import memory_mb
from tests.bench.suite.names import GROUPS, IN_ORDER, TOPICS
from tests.clients.grpc.programs import python
from tests.support.process import broker_process, clean_environment
from tests.support.remoting import RemotingClient, connected
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, SMALL, running_upstream

FOLDER: Final = Path(__file__).parent
KINDS: Final = ("plain", "groups", "ordering", "retries", "timeouts", "transactions", "outages")
"""Modules of the suite, in the order in which they run."""
_ROOT: Final = FOLDER.parents[2]
_SAMPLE_S: Final = 0.05
_LONGEST_POLL_MS: Final = 1_000
"""Of both brokers, as consumers wait for their long polls when they close; the pytest plugin's default."""

_UPSTREAM: Final[Mapping[str, str]] = {
    **SMALL,
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "timerPrecisionMs": "100",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "reviveQueueNum": "1",
    "reviveInterval": "100",
    "reviveMaxSlow": "1",
    "popFromRetryProbability": "100",
    "enableSingleTopicRegister": "true",
}
"""RocketMQ's settings. Each wait is as short as its settings allow."""
_FASTEST_RETRIES: Final = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000]}}


class _Place(NamedTuple):
    """A running broker, as the suite and the measurement need it."""

    endpoint: str
    url: str
    pids: Sequence[int]


class SuiteError(Exception):
    """A test of the suite failed; the message is pytest's output."""


class SuiteRun(NamedTuple):
    """A run's figures: the whole, the start of broker and service, and the tests by module.

    ``passed_s`` is how far the tests have moved the clock.
    """

    whole_s: float
    start_s: float
    service_s: float
    kinds_s: Mapping[str, float]
    memory_mb: float
    cpu_s: float
    passed_s: float
    tests: int

    @property
    def tests_s(self) -> float:
        """The time of all tests."""
        return sum(self.kinds_s.values())


@asynccontextmanager
async def ours(home: Path) -> AsyncIterator[_Place]:
    """Run mocketmq as its pytest plugin does, and create the topics and groups."""
    del home
    options = ("--clock", "manual", "--max-long-poll", f"{_LONGEST_POLL_MS}ms")
    async with broker_process(*options) as process, connected(HOST, process.broker_port) as client:
        await _prepare(client)
        yield _Place(process.grpc, process.url, (process.pid,))


@asynccontextmanager
async def theirs(home: Path) -> AsyncIterator[_Place]:
    """Run RocketMQ with its proxy, and create the topics and groups."""
    proxy = {
        "grpcClientConsumerMinLongPollingTimeoutMillis": _LONGEST_POLL_MS,
        "grpcClientConsumerMaxLongPollingTimeoutMillis": _LONGEST_POLL_MS,
    }
    async with running_upstream(home / "rocketmq", V5_5, _UPSTREAM, proxy) as running:
        async with connected(HOST, running.broker_port) as client:
            await _prepare(client, groupRetryPolicy=_FASTEST_RETRIES)
        yield _Place(f"{HOST}:{running.grpc_port}", "", running.pids)


async def _prepare(client: RemotingClient, **config: Any) -> None:
    """Create topics and groups, the groups with this configuration."""
    for topic, kind in TOPICS.items():
        ext = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        ext |= {"readQueueNums": "1", "writeQueueNums": "1", "topicSysFlag": "0", "order": "false"}
        ext["attributes"] = f"+message.type={kind}"
        await client.ok(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    for group in GROUPS:
        wanted = {"groupName": group, "consumeMessageOrderly": group in IN_ORDER, **config}
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await client.ok(code, body=json.dumps(wanted).encode())


async def run_suite(
    start: Callable[[Path], AbstractAsyncContextManager[_Place]], kinds: Sequence[str] = KINDS
) -> SuiteRun:
    """Start a broker, run these modules on it, and stop it. Raises SuiteError if a test fails."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        home = Path(folder)
        client = await asyncio.to_thread(python, FOLDER / "session.py", home)
        began = perf_counter()
        async with start(home) as place:
            started = perf_counter()
            async with _peak_memory(place.pids) as peak:
                result = await _pytest(home, place, client.environment, kinds)
            ended = perf_counter()
            cpu_s = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in place.pids)
    kinds_s = dict.fromkeys(kinds, 0.0)
    for name, seconds in result["tests_s"].items():
        kinds_s[Path(name.partition("::")[0]).stem] += seconds
    count, passed_s = len(result["tests_s"]), result["passed_s"]
    return SuiteRun(
        ended - began, started - began, result["service_s"], kinds_s, peak[0], cpu_s, passed_s, count
    )


@asynccontextmanager
async def _peak_memory(pids: Sequence[int]) -> AsyncIterator[list[float]]:
    """Yield a list whose only element is the most memory of these processes so far, in 10^6 bytes."""
    peak = [0.0]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], sum(map(memory_mb, pids)))
            await asyncio.sleep(_SAMPLE_S)

    watching = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _pytest(
    home: Path, place: _Place, client: Mapping[str, str], kinds: Sequence[str]
) -> dict[str, Any]:
    """Run pytest in a process that has the client, and return what :mod:`session` has saved."""
    file = home / "result.json"
    suite = {"endpoint": place.endpoint, "url": place.url, "pids": place.pids, "file": str(file)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(_ROOT), "--noconftest"),
        *("-p", "no:cacheprovider", "-p", "no:logging", "-p", "tests.bench.suite.session", "--tb", "short"),
        *(str(FOLDER / "tests" / f"{kind}.py") for kind in kinds),
        cwd=home,
        env={
            **clean_environment(),
            **client,
            "PYTHONPATH": os.pathsep.join((client["PYTHONPATH"], str(_ROOT))),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "SUITE": json.dumps(suite),
        },
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise SuiteError(output.decode(errors="replace"))
    result: dict[str, Any] = json.loads(file.read_text())
    return result
