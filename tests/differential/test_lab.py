"""The lab measures a real RocketMQ under the same load as the schemes, with the probe's client."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mocketmq.calling.call import ClusterError
from mocketmq.clock import US_PER_S
from mocketmq.lab.cluster_run import ClusterRun
from mocketmq.lab.load import Load
from mocketmq.lab.measured import Results
from mocketmq_report.job import ReportRunner
from mocketmq_report.lab.making import make_lab_report
from mocketmq_report.progress import ignore_progress
from tests.differential.duel import Duel
from tests.differential.values import LEVELS
from tests.support.patience import HANGING_S
from tests.support.probes import ACCESS
from tests.upstream.process import HOST, Upstream

pytestmark = pytest.mark.differential

LOAD = Load(rate=20, seconds=2, delays_us=(US_PER_S, 5 * US_PER_S))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_real_rocketmq_is_a_subject(plain: Upstream, tmp_path: Path) -> None:
    cluster = ClusterRun(f"{HOST}:{plain.namesrv_port}", LOAD, ACCESS)
    async with asyncio.timeout(HANGING_S):
        name = await cluster.check()
        measured = await cluster.measure(name, tmp_path / "rocketmq", lambda *_: None)
    assert name == f"RocketMQ V{plain.version.replace('.', '_')}"
    lab = make_lab_report(
        ReportRunner(None), LOAD, Results([measured], []), tmp_path, "a real one", ignore_progress
    )
    [subject] = lab.subjects
    assert (subject.kind, subject.name, subject.herd, subject.growth) == ("cluster", name, None, [])
    assert [each.of for each in subject.lateness] == ["all", "1s", "5s"]
    assert sum(each.measured for each in subject.lateness[1:]) == subject.lateness[0].measured
    assert subject.lateness[0].measured
    assert subject.lateness_error_us == 1_000


@pytest.mark.asyncio(loop_scope="session")
async def test_other_delays_are_refused(duels: Sequence[Duel]) -> None:
    cluster = ClusterRun(f"{HOST}:{duels[0].theirs.namesrv_port}", LOAD, ACCESS)
    with pytest.raises(
        ClusterError, match=f"level 2 of the cluster is not 5s: its delay levels are {LEVELS}"
    ):
        await cluster.check()
