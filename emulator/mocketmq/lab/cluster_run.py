"""Measures a real RocketMQ at the load's rate, with the probe."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from mocketmq.calling.call import ClusterAccess, ClusterError
from mocketmq.clock import US_PER_S
from mocketmq.duration import format_duration
from mocketmq.lab.load import Load, level_of
from mocketmq.lab.measured import MeasuredSubject
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Plan, Probing, Progress
from mocketmq.probe.remoting_cluster import RemotingCluster

_TOPIC: Final = "mocketmq-lab"
_PATIENCE_US: Final = 60 * US_PER_S
_SLOWER: Final = 0.95


class ClusterRun:
    """A cluster to measure. Before the lab begins, ``check`` raises ClusterError if that is impossible."""

    def __init__(self, name_servers: str, load: Load, access: ClusterAccess) -> None:
        levels = tuple(map(level_of, load.delays_us))
        each = -(-load.messages // len(levels))
        self._load = load
        self._connect = partial(RemotingCluster, name_servers, access)
        self._plan = Plan(_TOPIC, _TOPIC, levels, (), each, load.rate, load.size, _PATIENCE_US)

    async def check(self) -> str:
        """Check that the cluster is up and supports the load's delays; return its name for the report."""
        cluster = self._connect()
        try:
            await cluster.open(self._plan.topic, self._plan.group)
        finally:
            await cluster.close()
        for level, delay_us in zip(self._plan.levels, self._load.delays_us, strict=True):
            if level > cluster.table.highest or cluster.table.delay_us(level) != delay_us:
                raise ClusterError(
                    f"level {level} of the cluster is not {format_duration(delay_us)}:"
                    f" its delay levels are {cluster.table.text}"
                )
        versions = ", ".join(dict.fromkeys(each.version for each in cluster.brokers))
        return f"RocketMQ {versions}"

    async def measure(self, name: str, place: Path, progress: Progress) -> MeasuredSubject:
        """Send at the load's rate and receive; write the ledger to ``place``. Raises ClusterError."""
        probing = Probing(self._plan, self._connect(), progress)
        await probing.run(asyncio.Event())
        ledger = ProbeLedger(probing)
        file = place.with_suffix(".csv")
        ledger.write(file)
        sent = sorted(each.sent_us for each in probing.sent.values() if each.delay)
        notes = [
            f"saves, herds and restarts are not measured: {name} must not be filled or restarted by a lab",
            *(f"{count} sends failed: {reason}" for reason, count in probing.failed.items()),
            *ledger.notes,
        ]
        rate = (len(sent) - 1) * US_PER_S / max(sent[-1] - sent[0], 1)
        if rate < _SLOWER * self._load.rate:
            notes.append(f"it accepted {rate:.0f} messages a second, sent one after the other")
        return MeasuredSubject(
            name=name,
            kind="cluster",
            version=name,
            ledger=file,
            lateness_error_us=ledger.error_us,
            delays={format_duration(each): str(level_of(each)) for each in self._load.delays_us},
            notes=notes,
        )
