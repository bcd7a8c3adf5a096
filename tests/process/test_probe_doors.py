"""The probe by every protocol: due times compared with the broker's, TLS, and refusals."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.calling.call import ClusterError, Credentials, NoAnswerError, tls_context
from mocketmq.cli import commands
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.connections.certificate import _self_signed
from mocketmq.probe.aliyun_cluster import AliyunCluster
from mocketmq.probe.grpc_cluster import GrpcCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.remoting_cluster import RemotingCluster
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.progress import ignore_progress
from tests.support.brokers import rows
from tests.support.command_line import runner
from tests.support.grpc import grpc_client
from tests.support.probes import ACCESS, DOORS, TOPIC, address, cluster_of, command, plan, probed
from tests.support.process import BrokerProcess, forked_broker
from tests.support.waiting import metric_reaches

SLEW_US = US_PER_MS
"""Maximum slew of the wall clock during a test; the broker's clock is not slewed."""
HOST = "127.0.0.1"
DELAYS_US = (1_000 * US_PER_MS, 1_300 * US_PER_MS)
SOON = plan(delays_us=(50 * US_PER_MS,), each=1, rate=100)
"""Plan for refusals, and for checks right after a send; a slow machine may send a message too late."""


@pytest.mark.parametrize("moved", ["moved", "not moved"])
@pytest.mark.parametrize("door", DOORS)
async def test_lateness_of_due_times_is_within_the_stated_error(
    door: str, moved: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    async with forked_broker("--data", str(data)) as broker, Client(broker.url) as client:
        if moved == "moved":
            await client.advance("90m")
        await client.add_fault("deliver-late", by="137ms")
        ledger = await probed(cluster_of(broker, door), plan(delays_us=DELAYS_US, each=10, rate=100))
        asked_us = wall_us()
        there_us = (await client.clock())["now_ms"] * US_PER_MS
        answered_us = wall_us()
    truth = {row["unique_key"]: row for row in rows(data, "SELECT * FROM deliveries")}
    [offset] = ledger.offsets.values()
    assert there_us - answered_us <= offset.ahead_us + offset.error_us + SLEW_US
    assert there_us + US_PER_MS - asked_us >= offset.ahead_us - offset.error_us - SLEW_US
    tells_of_move = any("shifts due times by the lead of its clock" in note for note in ledger.notes)
    assert tells_of_move is (moved == "moved")
    # Messages that a slow machine sent after their due time are reported, but get no row.
    assert len(ledger.rows) == len({row.message_id for row in ledger.rows})
    assert len(ledger.rows) == 20 or any("are left out" in note for note in ledger.notes), ledger.notes
    for row in ledger.rows:
        if row.message_id not in truth:  # due when it was stored, so it was not delayed
            continue
        was = truth[row.message_id]
        assert (row.level, row.scheme, row.state) == (None, "absolute", "delivered")
        delivered_us = was["pulled_us" if door == "aliyun" else "delivered_us"]
        assert row.delivered_us
        assert abs(row.due_us - was["due_us"]) <= ledger.error_us
        assert abs(row.delivered_us - delivered_us) <= US_PER_MS
        assert abs(row.delivered_us - row.due_us - (delivered_us - was["due_us"])) <= ledger.error_us
        assert row.delivered_us - row.due_us >= 137_000 - ledger.error_us
        assert row.born_us <= row.stored_us < row.due_us


async def test_levels_and_due_times_are_probed_together(tmp_path: Path) -> None:
    out = tmp_path / "probe.csv"
    async with forked_broker("--levels", "1s") as broker:
        told = await command(
            *("--name-server", address(broker, "remoting"), "--levels", "1", "--delays", "2s,2500ms"),
            *("--count", "5", "--rate", "100", "--out", str(out), "--json"),
        )
    assert (told.code, told.stderr) == (0, ""), told
    delays = json.loads(told.stdout)["delays"]
    assert [(each["level"], each["delay"]) for each in delays] == [(1, "1s"), (None, "2s"), (None, "2.5s")]
    report = run(ReportRunner(None), Job([str(out)]), ignore_progress)
    assert (report.quality.kept, report.quality.skewed) == (report.quality.read, 0)


@pytest.mark.parametrize("door", ["grpc", "aliyun"])
async def test_the_command_probes_by_the_door(door: str, tmp_path: Path) -> None:
    out = tmp_path / "probe.csv"
    async with forked_broker("--access-keys", "me:secret") as broker:
        told = await command(
            *(DOORS[door], address(broker, door), "--delays", "2s", "--count", "3", "--rate", "100"),
            *("--out", str(out), *(["--tls-insecure"] if door == "grpc" else [])),
            ROCKETMQ_ACCESS_KEY="me",
            ROCKETMQ_SECRET_KEY="secret",  # noqa: S106 - of the broker above
        )
    assert (told.code, told.stderr) == (0, ""), told
    assert "\n–       2s " in told.stdout
    assert run(ReportRunner(None), Job([str(out)]), ignore_progress).quality.skewed == 0


async def test_message_given_back_by_another_client_is_left_out() -> None:
    async with forked_broker() as broker, grpc_client(int(broker.grpc.rpartition(":")[2])) as other:
        polling = asyncio.create_task(other.receive(TOPIC, TOPIC, wait_s=20, batch_size=1))
        await metric_reaches(broker.url, "mocketmq_long_polls", 1)

        async def give_back() -> None:
            [taken] = await polling
            changed = await other.change(taken, 0, TOPIC, TOPIC)
            assert changed.status.code == 20_000

        ledger, _ = await asyncio.gather(probed(cluster_of(broker, "grpc"), SOON), give_back())
    assert any(note.startswith("1 messages are left out: they were redelivered") for note in ledger.notes)


async def test_an_instance_of_aliyun_has_a_namespace() -> None:
    async with forked_broker() as broker, Client(broker.url) as client:
        await probed(cluster_of(broker, "aliyun", instance="MQ_INST_1_a"), SOON)
        assert f"MQ_INST_1_a%{TOPIC}" in {each["name"] for each in await client.topics()}


# TLS


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[tuple[BrokerProcess, Path]]:
    """A broker with a self-signed certificate, and the file of this certificate."""
    certificate, key = _self_signed([HOST])
    own = folder / "own.crt", folder / "own.key"
    own[0].write_bytes(certificate)
    own[1].write_bytes(key)
    async with forked_broker("--tls-cert", str(own[0]), "--tls-key", str(own[1])) as broker:
        yield broker, own[0]


@asynccontextmanager
async def https(broker: BrokerProcess, certificate: Path) -> AsyncIterator[str]:
    """URL of a proxy that terminates TLS in front of the broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    port = int(broker.url.rpartition(":")[2])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    serving: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            serving.append(task)
        to_broker = await asyncio.open_connection(HOST, port)
        await asyncio.gather(pass_on(reader, to_broker[1]), pass_on(to_broker[0], writer))

    server = await asyncio.start_server(serve, HOST, 0, ssl=context)
    try:
        yield f"https://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*serving, return_exceptions=True)


@pytest.mark.parametrize("door", DOORS)
async def test_tls_accepts_a_self_signed_certificate_as_authority(door: str, tmp_path: Path) -> None:
    async with secured(tmp_path) as (broker, certificate), https(broker, certificate) as url:

        async def by(ca: Path | None, *, trusts_anybody: bool = False) -> ProbeLedger:
            tls = tls_context(ca, trusts_anybody=trusts_anybody, checks_host=door != "remoting")
            cluster = (
                AliyunCluster(url, access=ACCESS._replace(tls=tls))
                if door == "aliyun"
                else cluster_of(broker, door, tls=tls)
            )
            return await probed(cluster, SOON)

        assert (await by(certificate)).offsets
        assert (await by(None, trusts_anybody=True)).offsets
        with pytest.raises(NoAnswerError, match="its certificate is not trusted") as told:
            await by(None)
    assert "name its authority with --tls-ca FILE, or trust any certificate with --tls-insecure" in str(
        told.value
    )


# Refusals


@pytest.mark.parametrize("door", ["grpc", "aliyun"])
async def test_a_wrong_secret_is_reported(door: str) -> None:
    async with forked_broker("--access-keys", "me:secret") as broker:
        with pytest.raises(ClusterError) as told:
            await probed(cluster_of(broker, door, credentials=Credentials("me", "wrong")), SOON)
    assert {
        "grpc": "the proxy returned no route for topic mocketmq-probe: Check signature failed for",
        "aliyun": "group mocketmq-probe cannot receive from topic mocketmq-probe: the secret is wrong",
    }[door] in str(told.value)


async def test_a_temporary_key_of_aliyun_is_sent_with_its_token() -> None:
    async with forked_broker("--access-keys", "me:secret", "--security-tokens", "me:token") as broker:
        found = await probed(
            cluster_of(broker, "aliyun", credentials=Credentials("me", "secret", "token")), SOON
        )
        assert found.offsets
        with pytest.raises(
            ClusterError, match="needs its STS token in the header security-token; no token was sent"
        ):
            await probed(cluster_of(broker, "aliyun", credentials=Credentials("me", "secret")), SOON)


@pytest.mark.parametrize("door", ["grpc", "aliyun"])
async def test_a_missing_topic_is_reported(door: str) -> None:
    async with forked_broker("--auto-create-topics", "false") as broker:
        with pytest.raises(ClusterError) as told:
            await probed(cluster_of(broker, door), SOON)
    assert {
        "grpc": "topic mocketmq-probe does not exist, and a proxy does not create topics: create it with type"
        " DELAY, or name another with --topic: ",
        "aliyun": "create the topic for scheduled messages, or name another with --topic: ",
    }[door] in str(told.value)


async def test_a_topic_of_another_type_is_reported() -> None:
    async with forked_broker() as broker, Client(broker.url) as client:
        await client.put_topic(TOPIC, type="normal")
        with pytest.raises(ClusterError, match="is not of type DELAY: it accepts NORMAL messages"):
            await probed(cluster_of(broker, "grpc"), SOON)


@pytest.mark.parametrize(("door", "days"), [("grpc", 2), ("aliyun", 41)])
async def test_a_too_long_delay_is_reported(door: str, days: int) -> None:
    delays_us = *SOON.delays_us, days * 86_400 * US_PER_S
    async with forked_broker() as broker:
        with pytest.raises(
            ClusterError, match=f"the cluster refused a message delayed by {days}d: .*(24 h|40d)"
        ):
            await probed(cluster_of(broker, door), SOON._replace(delays_us=delays_us))


@pytest.mark.parametrize("kind", [RemotingCluster, GrpcCluster, AliyunCluster])
async def test_a_server_with_another_protocol_is_reported(kind: Any) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    there = f"{HOST}:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ClusterError, match=there):
        await probed(kind(f"http://{there}" if kind is AliyunCluster else there), SOON)
    server.close()


@pytest.mark.parametrize("kind", [GrpcCluster, AliyunCluster])
async def test_an_unreachable_server_is_reported(kind: Any) -> None:
    there = f"http://{HOST}:9" if kind is AliyunCluster else f"{HOST}:9"
    with pytest.raises(NoAnswerError, match=f"^{there} cannot be reached: "):
        await probed(kind(there), SOON)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "give one of --name-server, --grpc and --aliyun-http"),
        (["--grpc", "h:1", "--name-server", "h:2"], "give one of --name-server, --grpc and --aliyun-http"),
        (["--grpc", "h:1", "--levels", "1"], "--levels has no effect without --name-server; give --delays"),
        (["--grpc", "h:1", "--instance", "a"], "--instance has no effect without --aliyun-http"),
        (
            ["--name-server", "h:1", "--security-token", "t"],
            "--security-token has no effect without --aliyun-http and --access-key",
        ),
        (["--grpc", "h:one"], "--grpc is 'h:one'; allowed: HOST or HOST:PORT"),
        (["--grpc", "h:1", "--delays", "soon"], "'soon'; allowed: durations of whole milliseconds"),
        (["--grpc", "h:1", "--delays", "1us"], "'1us'; allowed: durations of whole milliseconds from 1ms on"),
        (["--grpc", "h:1", "--tls-ca", "no.pem"], "--tls-ca is 'no.pem'; allowed: a PEM file"),
        (
            ["--grpc", "h:1", "--tls-ca", "a", "--tls-insecure"],
            "--tls-ca and --tls-insecure cannot be combined",
        ),
        (["--aliyun-http", "h"], "--aliyun-http is 'h'; allowed: http://HOST[:PORT] or https://…"),
        (["--aliyun-http", "http://h", "--tls"], "--aliyun-http is 'http://h'; allowed with TLS: https://…"),
    ],
)
async def test_conflicting_options_are_reported(
    args: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = await asyncio.to_thread(runner().invoke, commands, ["probe", *args])
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240 - of a small folder
