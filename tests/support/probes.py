"""Probes a running broker, either in this process or with the command."""

import asyncio
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Any

from mocketmq.calling.call import ClusterAccess, Credentials
from mocketmq.clock import US_PER_S
from mocketmq.probe.aliyun_cluster import AliyunCluster
from mocketmq.probe.cluster import ProbedCluster
from mocketmq.probe.grpc_cluster import GrpcCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import Plan, Probing
from mocketmq.probe.remoting_cluster import RemotingCluster
from tests.support.command_line import Ended
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, clean_environment

ACCESS = ClusterAccess(call_s=HANGING_S)
TOPIC = "mocketmq-probe"
DOORS = {"remoting": "--name-server", "grpc": "--grpc", "aliyun": "--aliyun-http"}
"""The protocols of a broker, and the command's option for each."""
PATIENT = f"""
import functools
from mocketmq.calling import call
from mocketmq.__main__ import main

call.ClusterAccess = functools.partial(call.ClusterAccess, call_s={HANGING_S})
main()
"""
"""The command with a timeout that is long enough for busy machines."""


def plan(**changed: Any) -> Plan:
    """Plan a quick probe of 20 messages for each level or delay."""
    given: dict[str, Any] = {"topic": TOPIC, "group": TOPIC, "levels": (), "delays_us": ()}
    given |= {"each": 20, "rate": 40, "size": 10}
    return Plan(**{**given, "patience_us": round(HANGING_S) * US_PER_S, **changed})


def address(broker: BrokerProcess, door: str) -> str:
    """Return the address of the protocol's endpoint, as the command expects it."""
    host, port = broker.name_server
    return {"remoting": f"{host}:{port}", "grpc": broker.grpc, "aliyun": broker.url}[door]


def cluster_of(
    broker: BrokerProcess,
    door: str,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    **more: Any,
) -> ProbedCluster:
    """Return the broker as a probe reaches it by this protocol, with timeouts for a busy machine."""
    kinds: dict[str, Any] = {"remoting": RemotingCluster, "grpc": GrpcCluster, "aliyun": AliyunCluster}
    access = ACCESS._replace(credentials=credentials, tls=tls)
    cluster: ProbedCluster = kinds[door](address(broker, door), access=access, **more)
    return cluster


async def probed(cluster: ProbedCluster, made: Plan) -> ProbeLedger:
    """Run a probe, and return its ledger."""
    probing = Probing(made, cluster, lambda *_: None)
    async with asyncio.timeout(HANGING_S):
        await probing.run(asyncio.Event())
    return ProbeLedger(probing)


async def started(*args: str, **env: str) -> Process:
    """Start the probe command."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PATIENT, "probe", *args),
        env=clean_environment() | env,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def ended(process: Process) -> Ended:
    """Wait for the command to exit, and return its output."""
    async with asyncio.timeout(HANGING_S):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


async def command(*args: str, **env: str) -> Ended:
    """Run the probe command."""
    return await ended(await started(*args, **env))
