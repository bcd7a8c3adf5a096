"""Exports when the collector is away, slow or refuses, and a broker without exports."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from mocketmq import __version__
from mocketmq.errors import SettingError
from mocketmq.otlp import telemetry
from tests.support.api import running_api
from tests.support.collector import Collector, running_collector
from tests.support.patience import HANGING_S, PATIENCE_S
from tests.support.process import clean_environment


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with running_collector() as collector:
        yield collector


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def metrics(collector: Collector, *names: str) -> None:
    """Wait for exports of these metrics."""
    async with asyncio.timeout(PATIENCE_S):
        while not collector.metrics.keys() >= set(names):
            await collector.asked(collector.requests + 1)


async def test_metrics_are_those_of_a_scrape_with_the_names_of_a_real_broker(collector: Collector) -> None:
    async with running_api(otlp_endpoint=f"{collector.url}/") as api:
        await api.send(body="four")
        await metrics(collector, "rocketmq_message_size")
        collector.metrics.clear()
        await metrics(collector, "rocketmq_message_size")
        found = collector.metrics
        sent = found["mocketmq_sent_messages_total"].sum
        assert (sent.is_monotonic, sent.aggregation_temporality) == (True, 2)
        assert [point.as_int for point in sent.data_points] == [1]
        assert sent.data_points[0].start_time_unix_nano < sent.data_points[0].time_unix_nano
        size = found["rocketmq_message_size"].histogram
        [point] = size.data_points
        labels = {pair.key: pair.value.string_value for pair in point.attributes}
        assert labels == {
            "cluster": "DefaultCluster",
            "node_id": "broker-a",
            "node_type": "broker",
            "topic": "orders",
            "message_type": "normal",
            "is_system": "false",
        }
        assert (point.count, point.sum, list(point.bucket_counts)) == (1, 4, [1, 0, 0, 0, 0, 0, 0])
        assert list(point.explicit_bounds) == [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20]
        # Of RocketMQ's instruments; Prometheus adds the unit to the name.
        assert found["rocketmq_timer_dequeue_latency"].unit == "milliseconds"
        assert found["rocketmq_timer_dequeue_latency"].gauge.data_points
        assert found["mocketmq_clock_seconds"].unit == "s"
        scraped = (await api.call("GET", "/metrics")).body.decode()
        for name in found:
            if name not in ("rocketmq_timer_dequeue_latency", "rocketmq_storage_dispatch_behind"):
                assert f"\n{name}" in f"\n{scraped}", name


async def test_opentelemetrys_variables_add_headers_and_name_the_service(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=broker-of-tests,deployment.environment=ci")
    async with running_api(otlp_endpoint=f"{collector.url}/base") as api:
        await api.send()
        [span] = await collector.arrived("send")
    assert {headers["x-token"] for headers in collector.headers} == {"secret"}
    assert span.resource["service.name"] == "broker-of-tests"
    assert span.resource["deployment.environment"] == "ci"
    assert span.resource["service.version"] == __version__


async def test_metrics_can_be_left_out(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    async with running_api(otlp_endpoint=collector.url) as api:
        await api.send()
    assert len(collector.spans) == 1
    assert collector.metrics == {}


async def test_an_unreachable_collector_is_reported_once_and_then_that_it_is_back(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mocketmq.otlp")
    collector.status = 400  # which the SDK does not retry
    async with running_api(otlp_endpoint=collector.url) as api:
        for sent in range(3):
            await api.send()
            await collector.asked_for_traces(sent + 1)  # so that its span is not exported after the next
            await collector.asked(collector.requests + 5)
        [first, second] = sorted(warnings(caplog))
        assert first.startswith(f"cannot export metrics to {collector.url}: ")
        assert second.startswith(f"cannot export traces to {collector.url}: ")
        assert "400" in second
        collector.status = 200
        await api.send()
        await collector.arrived("send")
        await metrics(collector, "mocketmq_clock_seconds")
    again = [record.getMessage() for record in caplog.records if "again" in record.getMessage()]
    assert sorted(again) == [
        f"exporting {what} to {collector.url} works again" for what in ("metrics", "traces")
    ]
    assert len(warnings(caplog)) == 2


async def test_a_collector_that_answers_nothing_holds_up_neither_sends_nor_the_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "FLUSH_S", 0.1)
    collector.held = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S / 2):  # the SDK gives up after 10 s at each request
        async with running_api(otlp_endpoint=collector.url) as api:
            await api.send()
            await collector.asked(2)  # traces and metrics
            for _ in range(100):
                await api.send()
            assert len(await api.receive()) == 101
    assert collector.spans == []
    assert warnings(caplog) == ["the last traces and metrics were not exported within 0.1 s"]


async def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import asyncio, sys\n"
        "from mocketmq import Settings, running_emulator\n"
        "async def main():\n"
        "    settings = Settings(data=':memory:', http_port=0, remoting=False, grpc_port=0)\n"
        "    async with running_emulator(settings):\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**clean_environment(), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        stdout=subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), HANGING_S)
    imported = set(output.decode().split())
    assert "mocketmq" in imported
    assert not imported & {"opentelemetry", "requests"}


async def test_without_the_extra_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("mocketmq.otlp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(SettingError, match="install mocketmq with its extra 'otlp'"):
        async with running_api(otlp_endpoint="http://127.0.0.1:9"):
            pass
