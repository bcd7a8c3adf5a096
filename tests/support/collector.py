"""An OpenTelemetry collector: an HTTP server that decodes what arrives by OTLP's own protobufs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.patience import PATIENCE_S


class CollectedSpan(NamedTuple):
    """A span, with ids in hexadecimal, times in microseconds, and OTLP's numbers for kind and status."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    trace_state: str
    kind: int
    began_us: int
    ended_us: int
    status: int
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def operation(self) -> str:
        """``messaging.operation.name``."""
        return str(self.attributes["messaging.operation.name"])


class Collector:
    """What has arrived. While ``status`` is not 200, everything is refused with it."""

    def __init__(self) -> None:
        self.status = 200
        self.url = ""
        self.headers: list[Mapping[str, str]] = []
        self.spans: list[CollectedSpan] = []
        self.metrics: dict[str, Any] = {}  # the newest of each name
        self.requests = 0
        self.trace_requests = 0
        self.held: asyncio.Event | None = None  # requests wait for it
        self._arrived = asyncio.Event()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Take an export."""
        body = await request.read()
        self.requests += 1
        self.trace_requests += request.path.endswith("/v1/traces")
        self.headers.append(request.headers)
        self._arrived.set()
        if self.held is not None:
            await self.held.wait()
        if self.status == 200:
            if request.path.endswith("/v1/traces"):
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            elif request.path.endswith("/v1/metrics"):
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        self._arrived.set()
        return web.Response(status=self.status)

    def _take_spans(self, message: Any) -> None:
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                assert scope.scope.name == "mocketmq"
                for span in scope.spans:
                    self.spans.append(
                        CollectedSpan(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.trace_state,
                            span.kind,
                            span.start_time_unix_nano // 1_000,
                            span.end_time_unix_nano // 1_000,
                            span.status.code,
                            _attributes(span.attributes),
                            _attributes(resource.resource.attributes),
                        )
                    )

    def _take_metrics(self, message: Any) -> None:
        for resource in message.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.metrics[metric.name] = metric

    async def arrived(self, *operations: str) -> list[CollectedSpan]:
        """Wait until there are at least as many spans as operations, and check that they are these."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.spans) < len(operations):
                self._arrived.clear()
                await self._arrived.wait()
        assert sorted(span.operation for span in self.spans) == sorted(operations), self.spans
        return self.spans

    async def asked_for_traces(self, times: int) -> None:
        """Wait until so many requests with spans have come."""
        async with asyncio.timeout(PATIENCE_S):
            while self.trace_requests < times:
                self._arrived.clear()
                await self._arrived.wait()

    async def asked(self, times: int = 1) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(PATIENCE_S):
            while self.requests < times:
                self._arrived.clear()
                await self._arrived.wait()

    def span(self, operation: str) -> CollectedSpan:
        """The only span of this operation."""
        [span] = [span for span in self.spans if span.operation == operation]
        return span


def _attributes(pairs: Any) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


@asynccontextmanager
async def running_collector() -> AsyncIterator[Collector]:
    """Run a collector at a free port."""
    collector = Collector()
    runner = web.ServerRunner(web.Server(collector.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        if collector.held is not None:
            collector.held.set()
        await runner.cleanup()
