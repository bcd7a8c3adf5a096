"""Turns the steps of messages into spans, four times a second, and hands them to OpenTelemetry's SDK.

No other task waits for this one. It takes the steps that parts of the broker have noted (``life_steps``),
reads the records from the store like any other reader, and yields to other tasks after every few spans. The
SDK queues spans, encodes and sends them in its own thread, and drops spans that its queue cannot hold.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.event_loop import EventLoopTurns
from mocketmq.otlp.export_log import ExportLog
from mocketmq.otlp.life_spans import LifeSpans
from mocketmq.otlp.life_steps import CommitStep, GroupStep, LifeSteps, OffsetStep, ParkStep
from mocketmq.otlp.traced_record import (
    TracedRecord,
    records_at,
    records_between,
    records_in,
    waiting_record,
)
from mocketmq.store.chore import Chore

log = logging.getLogger(__name__)

SPANS_AT_ONCE: Final = 32
"""Number of spans made before other tasks get a turn."""
_PAGE: Final = 256
_DELAY: Final = "OTEL_BSP_SCHEDULE_DELAY"
_DELAY_MS: Final = 1_000
"""Time between two exports, unless OpenTelemetry's variable sets it; its default is five times as long."""


def span_processor(endpoint: str, export_log: ExportLog) -> BatchSpanProcessor:
    """Make the SDK's span queue and thread, configured by the SDK's environment variables."""
    exporter = SpanSender(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces"), export_log)
    delay_ms = None if os.environ.get(_DELAY) else _DELAY_MS
    return BatchSpanProcessor(exporter, schedule_delay_millis=delay_ms)


class SpanSender:
    """The SDK's exporter of spans, which reports each success or failure to the export log."""

    def __init__(self, exporter: OTLPSpanExporter, export_log: ExportLog) -> None:
        self._exporter = exporter
        self._log = export_log

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans; called in the SDK's thread."""
        result = self._exporter.export(spans)
        self._log.note_export("traces", is_done=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Stop, also in the middle of a retry."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True, because the exporter keeps nothing."""
        return True


class TraceExport(Chore):
    """The task that makes spans."""

    name = "otlp-traces"
    interval_s = 0.25

    def __init__(self, broker: Broker, processor: BatchSpanProcessor, resource: Resource) -> None:
        super().__init__()
        self._database = broker.store.database
        self._rate = broker.clock.rate
        self._processor = processor
        self._steps = LifeSteps(broker)
        self._spans = LifeSpans(broker.registry.topics, broker.clock, resource)
        self._next_offset = broker.store.writer.next_log_offset
        self._last_wall_us = 0
        self._dropped = 0
        self._made = 0
        self._turns = EventLoopTurns()

    async def turn(self) -> None:
        """Make spans of everything noted so far."""
        steps = self._steps.take_steps()
        self._next_offset = self._steps.first_of(self._next_offset, steps)
        for kind, alike in groupby(steps, type):
            if kind is GroupStep:
                groups = (step for step in alike if isinstance(step, GroupStep))
                while page := [*islice(groups, _PAGE)]:
                    await self._of_groups(page)
                continue
            for step in alike:
                match step:
                    case CommitStep():
                        await self._of_commit(step)
                    case OffsetStep():
                        await self._of_offsets(step)
                    case ParkStep(wall_us, at_us, message, size, is_cancelled):
                        record = waiting_record(message, size)
                        await self._emit(
                            self._spans.of_parking(record, wall_us, at_us, is_cancelled=is_cancelled)
                        )
        if self._steps.dropped > self._dropped:
            log.warning(
                "traces leave out %d steps of messages: more happened at once than can be exported",
                self._steps.dropped - self._dropped,
            )
            self._dropped = self._steps.dropped

    async def _of_commit(self, step: CommitStep) -> None:
        self._next_offset = min(self._next_offset, step.end)  # a restored snapshot may end earlier
        while self._next_offset < step.end:
            end = min(self._next_offset + _PAGE, step.end)
            for record in await records_between(self._database, self._next_offset, end):
                await self._emit(self._spans.of_record(record, *self._stored(record, step), step.at_us))
            self._next_offset = end
        self._last_wall_us = step.wall_us

    def _stored(self, record: TracedRecord, step: CommitStep) -> tuple[int, int]:
        """Return the wall-clock instants between which a record was stored.

        A commit begins at the record's store time. If the broker's clock is manual, or was moved in between,
        the wall-clock time of the beginning is unknown.
        """
        took_us = (step.at_us - record.store_us) / self._rate if self._rate else 0
        began_us = step.wall_us - int(took_us)
        return max(began_us, self._last_wall_us) if took_us >= 0 else step.wall_us, step.wall_us

    async def _of_groups(self, steps: Sequence[GroupStep]) -> None:
        records = await records_at(self._database, [step.log_offset for step in steps])
        for step in steps:
            record = records.get(step.log_offset)
            if record is not None:
                await self._emit(
                    self._spans.of_group(
                        record, step.group, step.outcome, step.wall_us, step.at_us, step.times
                    )
                )

    async def _of_offsets(self, step: OffsetStep) -> None:
        outcome = Outcome.ACKED if step.is_commit else None
        for record in await records_in(self._database, step.queue_key, step.offsets):
            if outcome is None or not self._spans.was_given_back(record, step.group):
                await self._emit(
                    self._spans.of_group(record, step.group, outcome, step.wall_us, step.at_us, None)
                )

    async def _emit(self, spans: Iterable[ReadableSpan]) -> None:
        """Queue the spans in the SDK, and yield to other tasks."""
        for span in spans:
            self._processor.on_end(span)
            self._made += 1
            if self._made % SPANS_AT_ONCE == 0:
                await self._turns.next_turn()
