"""The probe on real RocketMQs. They run on this machine, so they share its clock."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.calling.call import tls_context
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.probe.cluster import ProbedCluster
from mocketmq.probe.grpc_cluster import GrpcCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Probing
from mocketmq.probe.remoting_cluster import RemotingCluster
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.progress import ignore_progress
from tests.differential.topics import make_topic
from tests.support.patience import HANGING_S
from tests.support.probes import plan
from tests.upstream.jars import V4, V5
from tests.upstream.process import HOST, SMALL, running_upstream

PRECISION_MS = 100
"""Precision to which RocketMQ 5 is configured to round due times."""


@pytest.mark.differential
@pytest.mark.parametrize("version", [V4, V5])
async def test_a_real_rocketmq_is_probed(
    version: str,
    jars: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    async with running_upstream(
        tmp_path / "upstream", version, {**SMALL, "brokerFastFailureEnable": "false"}
    ) as upstream:
        probing = Probing(
            plan(levels=(1, 2), rate=20, size=100),
            RemotingCluster(f"{HOST}:{upstream.namesrv_port}", call_s=HANGING_S),
            lambda *_: None,
        )
        async with asyncio.timeout(HANGING_S):
            await probing.run(asyncio.Event())
        ledger = ProbeLedger(probing)
    [offset] = ledger.offsets.values()
    assert abs(offset.ahead_us) <= offset.error_us + US_PER_MS  # the clock may be slewed during the probe
    [broker] = ledger.summary()["brokers"]
    assert broker["version"].startswith("V" + "_".join(version.split(".")))
    assert not probing.cluster.notes
    stored = [sent for sent in probing.sent.values() if sent.delay and sent.is_stored]
    assert stored
    assert all(sent.stored_ms for sent in stored)
    assert ledger.error_us == US_PER_MS
    assert {row.message_id for row in ledger.rows} == {sent.key for sent in stored}
    for row in ledger.rows:
        assert row.delivered_us
        assert row.delivered_us >= row.due_us
    out = tmp_path / "probe.csv"
    ledger.write(out)
    report = run(ReportRunner(None), Job([str(out)]), ignore_progress)
    assert report.quality.kept == report.quality.read == len(ledger.rows)
    assert report.quality.skewed == 0


@pytest.mark.differential
async def test_due_times_of_a_real_rocketmq_are_probed_over_tcp_and_through_its_proxy(
    jars: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    settings = {**SMALL, "brokerFastFailureEnable": "false", "timerPrecisionMs": str(PRECISION_MS)}
    made = plan(delays_us=(3 * US_PER_S, 4 * US_PER_S))
    async with running_upstream(tmp_path / "upstream", V5, settings, {}) as upstream:
        await make_topic(HOST, upstream.namesrv_port, upstream.broker_port, made.topic, "DELAY")
        tls = tls_context(None, trusts_anybody=True, checks_host=False)  # the proxy signs its own certificate
        proxy = f"{HOST}:{upstream.grpc_port}"
        clusters: dict[str, ProbedCluster] = {
            "remoting": RemotingCluster(f"{HOST}:{upstream.namesrv_port}", call_s=HANGING_S),
            "gRPC": GrpcCluster(proxy, call_s=HANGING_S),
            "gRPC over TLS": GrpcCluster(proxy, tls=tls, call_s=HANGING_S),
        }
        for name, cluster in clusters.items():
            steps = [f"{name}: opening"]
            probing = Probing(
                made, cluster, lambda *step, name=name, steps=steps: steps.append(f"{name}: {step}")
            )
            try:
                async with asyncio.timeout(2 * HANGING_S):  # longer than the probe waits for a message
                    await probing.run(asyncio.Event())
            except TimeoutError:
                pytest.fail(f"the probe hangs at {steps[-1]}")
            ledger = ProbeLedger(probing)
            [offset] = ledger.offsets.values()
            assert abs(offset.ahead_us) <= offset.error_us + US_PER_MS
            assert ledger.error_us == US_PER_MS
            assert ledger.rows
            assert not probing.repeated, name
            for row in ledger.rows:
                assert row.state == "delivered", (name, row)
                assert row.delivered_us
                assert row.delivered_us >= row.due_us - PRECISION_MS * US_PER_MS  # RocketMQ rounds down
