"""Probes of a running broker: in this process, and by the command."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Any

from mocketmq.clock import US_PER_S
from mocketmq.probe.aliyun_cluster import AliyunCluster
from mocketmq.probe.cluster import Cluster
from mocketmq.probe.grpc_cluster import GrpcCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Plan, Probing
from mocketmq.probe.remoting_cluster import RemotingCluster
from tests.support.command_line import Ended
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, clean_environment

TOPIC = "mocketmq-probe"
DOORS = {"remoting": "--name-server", "grpc": "--grpc", "aliyun": "--aliyun-http"}
"""The doors of a broker, and the options by which the command knows them."""
PATIENT = f"""
from mocketmq.calling import call
from mocketmq.__main__ import main

call.CALL_S = {HANGING_S}
main()
"""
"""The command, whose requests may take long on a busy machine."""


def plan(**changed: Any) -> Plan:
    """20 messages of each level or delay that is given, quickly."""
    given: dict[str, Any] = {"topic": TOPIC, "group": TOPIC, "levels": (), "delays_us": ()}
    given |= {"each": 20, "rate": 40, "size": 10}
    return Plan(**{**given, "patience_us": round(HANGING_S) * US_PER_S, **changed})


def address(broker: BrokerProcess, door: str) -> str:
    """Where the command finds the door."""
    host, port = broker.name_server
    return {"remoting": f"{host}:{port}", "grpc": broker.grpc, "aliyun": broker.url}[door]


def cluster_of(broker: BrokerProcess, door: str, **more: Any) -> Cluster:
    """The broker as a probe reaches it by the door."""
    kinds: dict[str, Any] = {"remoting": RemotingCluster, "grpc": GrpcCluster, "aliyun": AliyunCluster}
    cluster: Cluster = kinds[door](address(broker, door), **more)
    return cluster


async def probed(cluster: Cluster, made: Plan) -> ProbeLedger:
    """What a probe finds."""
    probing = Probing(made, cluster, lambda *_: None)
    async with asyncio.timeout(HANGING_S):
        await probing.run(asyncio.Event())
    return ProbeLedger(probing)


async def started(*args: str, **env: str) -> Process:
    """The command, running."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PATIENT, "probe", *args),
        env=clean_environment() | env,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def ended(process: Process) -> Ended:
    """What the command has said at its end."""
    async with asyncio.timeout(HANGING_S):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


async def command(*args: str, **env: str) -> Ended:
    """Run the command."""
    return await ended(await started(*args, **env))
