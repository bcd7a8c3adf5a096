"""The probe on real RocketMQs. They run on this machine, so they share its clock."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mocketmq.calling.call import ClusterError, tls_context
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.probe.cluster import ProbedCluster
from mocketmq.probe.grpc_cluster import GrpcCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Probing
from mocketmq.probe.remoting_cluster import RemotingCluster
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.progress import ignore_progress
from tests.differential.conftest import PRECISION_MS
from tests.differential.duel import Duel
from tests.differential.op import Ends
from tests.differential.topics import make_groups, make_topic
from tests.support.patience import HANGING_S
from tests.support.probes import ACCESS, plan
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, Upstream

pytestmark = pytest.mark.differential


@pytest.mark.asyncio(loop_scope="session")
async def test_a_real_rocketmq_is_probed(plain: Upstream, tmp_path: Path) -> None:
    probing = Probing(
        plan(levels=(1, 2), rate=20, size=100),
        RemotingCluster(f"{HOST}:{plain.namesrv_port}", ACCESS),
        lambda *_: None,
    )
    async with asyncio.timeout(HANGING_S):
        await probing.run(asyncio.Event())
    ledger = ProbeLedger(probing)
    [offset] = ledger.offsets.values()
    assert abs(offset.ahead_us) <= offset.error_us + US_PER_MS  # the clock may be slewed during the probe
    [broker] = ledger.summary()["brokers"]
    assert broker["version"].startswith("V" + "_".join(plain.version.split(".")))
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


@pytest.mark.asyncio(loop_scope="session")
async def test_a_proxy_of_5_5_needs_the_group_first(pop_duels: Sequence[Duel]) -> None:
    for duel in pop_duels:
        theirs, topic = duel.theirs, "mocketmq-probe-without-group"
        await make_topic(HOST, theirs.namesrv_port, theirs.broker_port, topic, "DELAY")
        cluster = GrpcCluster(f"{HOST}:{theirs.grpc_port}", ACCESS)
        try:
            if duel.version == V5_5:
                with pytest.raises(
                    ClusterError, match="group nobodys does not exist, and a proxy does not create groups"
                ):
                    await cluster.open(topic, "nobodys")
            else:
                await cluster.open(topic, "nobodys")
        finally:
            await cluster.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_due_times_of_a_real_rocketmq_are_probed_over_tcp_and_through_its_proxy(
    pop_duels: Sequence[Duel],
) -> None:
    await asyncio.gather(*(_probe_due_times(duel.theirs) for duel in pop_duels))


async def _probe_due_times(theirs: Ends) -> None:
    made = plan(delays_us=(3 * US_PER_S, 4 * US_PER_S))
    await make_topic(HOST, theirs.namesrv_port, theirs.broker_port, made.topic, "DELAY")
    await make_groups(HOST, theirs.broker_port, made.group)
    tls = tls_context(None, trusts_anybody=True, checks_host=False)  # the proxy signs its own certificate
    proxy = f"{HOST}:{theirs.grpc_port}"
    clusters: dict[str, ProbedCluster] = {
        "remoting": RemotingCluster(f"{HOST}:{theirs.namesrv_port}", ACCESS),
        "gRPC": GrpcCluster(proxy, ACCESS),
        "gRPC over TLS": GrpcCluster(proxy, ACCESS._replace(tls=tls)),
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
