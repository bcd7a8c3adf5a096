"""Exports traces and metrics of a broker to an OTLP endpoint, over HTTP with Protobuf, until it is closed."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mocketmq import __version__
from mocketmq.broker.broker import Broker
from mocketmq.clock import wall_us
from mocketmq.event_loop import log_defect
from mocketmq.http_api.metrics import metric_families
from mocketmq.http_api.route import Api
from mocketmq.otlp.export_log import ExportLog
from mocketmq.otlp.metric_points import metrics_data
from mocketmq.otlp.trace_export import TraceExport, span_processor
from mocketmq.store.chore import Chore

log = logging.getLogger(__name__)

FLUSH_S: Final = 3.0
"""Longest time for the last export when the broker stops."""
MAX_POINTS: Final = 5_000
"""Maximum number of data points in a request; a scrape with many topics has more."""
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS: Final = 60_000
_NS_PER_US: Final = 1_000


class MetricExport(Chore):
    """The task that exports metrics, at OpenTelemetry's interval."""

    name = "otlp-metrics"

    def __init__(self, api: Api, exporter: OTLPMetricExporter, resource: Resource, log: ExportLog) -> None:
        super().__init__()
        self.interval_s = _interval_ms() / 1_000
        self._api = api
        self._exporter = exporter
        self._resource = resource
        self._log = log
        self._started_ns = wall_us() * _NS_PER_US

    async def turn(self) -> None:
        """Read all metrics and export them."""
        families = await metric_families(self._api)
        now_ns = wall_us() * _NS_PER_US

        def export() -> None:
            data = metrics_data(families(), self._resource, self._started_ns, now_ns)
            result = self._exporter.export(data)
            self._log.note_export("metrics", is_done=result is MetricExportResult.SUCCESS)

        await in_daemon_thread(export)


class Telemetry:
    """The exports of a broker. Traces begin at once, metrics when the JSON API can be read."""

    def __init__(self, broker: Broker, endpoint: str) -> None:
        endpoint = endpoint.rstrip("/")
        self._log = ExportLog(endpoint)
        self._resource = _resource()
        self._processor: BatchSpanProcessor = span_processor(endpoint, self._log)
        self._exporter = OTLPMetricExporter(
            endpoint=f"{endpoint}/v1/metrics", max_export_batch_size=MAX_POINTS
        )
        self._traces = TraceExport(broker, self._processor, self._resource)
        self._traces.start().add_done_callback(log_defect)
        self._metrics: MetricExport | None = None

    def start_metrics(self, api: Api) -> None:
        """Begin to export metrics, unless OpenTelemetry's environment variable disables them."""
        if os.environ.get("OTEL_METRICS_EXPORTER") == "none":
            return
        self._metrics = MetricExport(api, self._exporter, self._resource, self._log)
        self._metrics.start().add_done_callback(log_defect)

    async def close(self) -> None:
        """Export the last spans and metrics within FLUSH_S, as far as the endpoint accepts them."""
        try:
            async with asyncio.timeout(FLUSH_S):
                await self._flush()
        except TimeoutError:
            log.warning("the last traces and metrics were not exported within %g s", FLUSH_S)
        self._log.close()

    async def _flush(self) -> None:
        await self._traces.close()
        await self._traces.turn()
        flushing = asyncio.ensure_future(in_daemon_thread(self._processor.shutdown))
        if self._metrics is not None:
            await self._metrics.close()
            await self._metrics.turn()
        await flushing
        await in_daemon_thread(self._exporter.shutdown)


@asynccontextmanager
async def open_telemetry(broker: Broker, endpoint: str) -> AsyncIterator[Telemetry]:
    """Export to ``endpoint``, a URL to which ``/v1/traces`` and ``/v1/metrics`` are appended."""
    telemetry = Telemetry(broker, endpoint)
    try:
        yield telemetry
    finally:
        await telemetry.close()


async def in_daemon_thread(work: Callable[[], object]) -> None:
    """Call ``work`` in a thread that delays neither the end of this loop nor the interpreter's exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def ended() -> None:
        if not done.done():
            done.set_result(None)

    def run() -> None:
        try:
            work()
        finally:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ended)

    threading.Thread(target=run, name="otlp", daemon=True).start()
    await done


def _resource() -> Resource:
    """Describe the broker by OpenTelemetry's environment variables; its default name is mocketmq."""
    named = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": "mocketmq", "service.version": __version__, **named})


def _interval_ms() -> int:
    text = os.environ.get(_INTERVAL, "")
    return int(text) if text.isdecimal() and int(text) > 0 else _INTERVAL_MS
