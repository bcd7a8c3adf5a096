"""The probe against a broker with known behaviour: its ledger, its clock, and injected lateness."""

import asyncio
import csv
import json
import signal
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.cli import commands
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.progress import ignore_progress
from tests.support.brokers import rows
from tests.support.command_line import Ended, runner
from tests.support.patience import HANGING_S
from tests.support.probes import cluster_of, command, ended, plan, probed, started
from tests.support.process import BrokerProcess, forked_broker

SHORT = ("--levels", "1s 2s")
SLEW_US = US_PER_MS
"""Maximum slew of the wall clock during a test; the broker's clock is not slewed."""


async def names(client: Client) -> set[tuple[str, str]]:
    """Return all topics and groups of the broker."""
    topics = {("topic", each["name"]) for each in await client.topics()}
    return topics | {("group", each["name"]) for each in await client.groups()}


@pytest.mark.parametrize("tells", ["tells when it stored", "does not tell"])
async def test_lateness_is_within_the_stated_error(tells: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with forked_broker("--data", str(data), *SHORT) as broker, Client(broker.url) as client:
        await client.advance("90m")
        await client.add_fault("deliver-late", by="137ms", level=1)
        if tells == "does not tell":
            await client.add_fault("refuse", error="NO_PERMISSION", operation="VIEW_MESSAGE_BY_ID")
        ledger = await probed(cluster_of(broker, "remoting"), plan(levels=(1, 2)))
        asked_us = wall_us()
        there_us = (await client.clock())["now_ms"] * US_PER_MS
        answered_us = wall_us()
    truth = {row["unique_key"]: row for row in rows(data, "SELECT * FROM deliveries")}
    assert len(ledger.rows) == len(truth) == 40
    offset = ledger.offsets["broker-a"]
    assert there_us - answered_us <= offset.ahead_us + offset.error_us + SLEW_US
    assert there_us + US_PER_MS - asked_us >= offset.ahead_us - offset.error_us - SLEW_US
    assert offset.ahead_us > 5_300 * US_PER_S
    assert not offset.drifts
    assert offset.samples == (45 if tells == "tells when it stored" else 5)
    if tells == "tells when it stored":
        assert ledger.error_us == 1_000
    for row in ledger.rows:
        was = truth[row.message_id]
        assert (row.level, row.queue_id, row.queue_offset) == (
            was["level"],
            was["queue_id"],
            was["queue_offset"],
        )
        assert row.delivered_us
        late_us = row.delivered_us - row.due_us
        assert abs(late_us - (was["delivered_us"] - was["due_us"])) <= ledger.error_us
        assert late_us >= (137_000 - ledger.error_us if row.level == 1 else 0)
        for name in ("stored_us", "due_us", "delivered_us"):
            assert abs(getattr(row, name) - was[name]) <= ledger.error_us, name
        assert row.born_us <= row.stored_us
        assert row.pulled_us
        assert row.delivered_us <= row.pulled_us


async def test_the_report_and_the_playback_read_the_ledger(tmp_path: Path) -> None:
    out = tmp_path / "probe.csv"
    async with forked_broker(*SHORT) as broker, Client(broker.url) as client:
        before = await names(client)
        host, port = broker.name_server
        told = await command(
            *("--name-server", f"127.0.0.1:9,{host}:{port}", "--levels", "1,2", "--count", "10"),
            *("--rate", "40", "--out", str(out), "--json"),
        )
        assert (told.code, told.stderr) == (0, ""), told
        summary = json.loads(told.stdout)
        left = await names(client) - before
    assert left == {("topic", summary["topic"]), ("group", summary["group"])}  # the summary names what stays
    assert [(each["sent"], each["received"]) for each in summary["delays"]] == [(10, 10), (10, 10)]
    assert summary["lateness_error_us"] == 1_000
    assert "127.0.0.1:9" in summary["notes"][0]
    report = run(ReportRunner(None), Job([str(out)]), ignore_progress)
    assert (report.quality.read, report.quality.kept, report.quality.skewed) == (20, 20, 0)
    assert report.quality.disorder == []
    assert [each.run for each in report.header.runs] == ["broker-a"]
    assert {each.name: each.measured for each in report.lateness if each.measured}["1"] == 10
    assert not any("column" in each for each in report.header.warnings)
    async with forked_broker("--lateness-from", str(out)) as broker:
        assert broker.start_line


async def test_ctrl_c_writes_the_messages_received_so_far(tmp_path: Path) -> None:
    out, data = tmp_path / "probe.csv", tmp_path / "data"
    async with forked_broker("--data", str(data), "--levels", "1s 1h") as broker:
        host, port = broker.name_server
        process = await started(
            *("--name-server", f"{host}:{port}", "--levels", "1,2"),
            *("--count", "3", "--rate", "100", "--out", str(out)),
        )
        async with asyncio.timeout(HANGING_S):
            while len(rows(data, "SELECT 1 FROM deliveries WHERE pulled_us IS NOT NULL")) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told = await ended(process)
    assert (told.code, told.stderr) == (130, "")
    assert "left on the cluster: topic mocketmq-probe, group mocketmq-probe" in told.stdout
    with out.open() as file:
        states = [(row["level"], row["state"]) for row in csv.DictReader(file)]
    # The fifth message was delivered, so the four before it were answered.
    assert states.count(("2", "pending")) >= 2
    assert sum(level == "1" for level, _ in states) >= 2
    assert ("2", "delivered") not in states


async def refused(broker: BrokerProcess, tmp_path: Path, *args: str, **env: str) -> Ended:
    host, port = broker.name_server
    out = tmp_path / "refused.csv"
    told = await command(
        *("--name-server", f"{host}:{port}", "--count", "2", "--rate", "100", "--out", str(out), *args), **env
    )
    assert not out.exists()
    return told


async def test_refusal_by_the_cluster_is_reported(tmp_path: Path) -> None:
    async with forked_broker(*SHORT) as broker, Client(broker.url) as client:
        told = await refused(broker, tmp_path, "--levels", "1,9")
        assert (told.code, told.stderr) == (1, "Error: there is no level 9: the cluster has 1s 2s\n")
        for operation, sentence in {
            "PULL_MESSAGE": "group mocketmq-probe cannot read topic mocketmq-probe: ",
            "SEND_MESSAGE": "the cluster refused a message: ",
            "GET_MAX_OFFSET": "broker broker-a did not report the end of topic mocketmq-probe: ",
            "GET_ROUTEINFO_BY_TOPIC": "the name server returned no route for topic mocketmq-probe: ",
        }.items():
            await client.add_fault("refuse", error="NO_PERMISSION", operation=operation)
            told = await refused(broker, tmp_path, "--levels", "1")
            assert told.code == 1
            assert told.stderr.startswith(f"Error: {sentence}"), told
            assert "NO_PERMISSION 16" in told.stderr
            await client.clear_faults()
    async with forked_broker("--no-auto-create-topics", *SHORT) as broker, Client(broker.url) as client:
        await client.add_fault("refuse", error="NO_PERMISSION", operation="UPDATE_AND_CREATE_TOPIC")
        told = await refused(broker, tmp_path, "--levels", "1")
        assert told.code == 1
        assert "topic mocketmq-probe does not exist, and broker broker-a did not create it: " in told.stderr
        assert "name an existing topic with --topic" in told.stderr
        await client.clear_faults()
        made = await probed(cluster_of(broker, "remoting"), plan(levels=(1,), each=2))
        assert len(made.rows) == 2  # the probe has created the topic


async def test_probe_signs_with_an_account(tmp_path: Path) -> None:
    async with forked_broker("--access-keys", "me:secret", *SHORT) as broker:
        told = await refused(broker, tmp_path, "--levels", "1")
        assert told.code == 1
        assert "No accessKey is configured" in told.stderr
        host, port = broker.name_server
        told = await command(
            *("--name-server", f"{host}:{port}", "--levels", "1", "--count", "2", "--rate", "100"),
            *("--out", str(tmp_path / "signed.csv")),
            ROCKETMQ_ACCESS_KEY="me",
            ROCKETMQ_SECRET_KEY="secret",  # noqa: S106 - of the broker above
        )
        assert (told.code, told.stderr) == (0, "")


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["--levels", "0"], 2, "'0'; allowed: numbers of delay levels from 1 on, such as 1,2,5"),
        (["--levels", "one"], 2, "allowed: numbers of delay levels from 1 on"),
        (["--topic", "a b"], 2, "The specified topic contains illegal characters"),
        (["--patience", "long"], 2, "--patience is 'long'; allowed: "),
        (["--rate", "1000"], 2, "1000 is not in the range 1<=x<=200"),
        (["--out", "probe.parquet"], 2, "a name that ends in .csv"),
        (["--out", "there.csv"], 2, "there.csv exists: give another name with --out"),
        (["--out", "no/where.csv"], 2, "no/where.csv cannot be written: No such file or directory"),
        (["--access-key", "me"], 2, "give both --access-key and --secret-key, or neither"),
    ],
)
async def test_errors_are_reported_before_anything_is_sent(
    args: list[str], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.csv"
    there.touch()
    monkeypatch.chdir(tmp_path)
    told = await asyncio.to_thread(
        runner().invoke, commands, ["probe", "--name-server", "127.0.0.1:9", *args]
    )
    assert told.exit_code == code
    assert sentence in told.stderr
    assert list(tmp_path.iterdir()) == [there]  # noqa: ASYNC240 - of a small folder


async def test_without_a_name_server_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "probe.csv"
    told = await command("--name-server", "127.0.0.1:9", "--out", str(out))
    assert (told.code, told.stdout) == (3, "")
    assert told.stderr.startswith("Error: no name server answered: 127.0.0.1:9 cannot be reached: ")
    assert not out.exists()
