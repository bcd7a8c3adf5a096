"""``mocketmq report --follow``: a rolling table per level of a running broker, by Structured Streaming.

A broker that stops, starts again, moves its clock or is reset goes on in the same table. Another store in the
place of the first begins a new one.
"""

import queue
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreError
from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mocketmq_report.figures import instant
from mocketmq_report.live.delivery_stream import STEPS, DeliveryStream, windows
from mocketmq_report.live.rolling_table import RollingTable
from mocketmq_report.live.status import BrokerStatus, broker_status

TICK_S: Final = 1.0
"""The table is brought up to date about so often."""
_WIDTH: Final = 180
"""Columns where no terminal limits them."""


def follow(
    spark: SparkSession,
    path: Path,
    *,
    window_s: float,
    console: Console,
    until: Callable[[], bool] | None = None,
) -> None:
    """Show the table of the broker whose data directory is ``path`` until Ctrl-C.

    In a terminal one table changes, elsewhere each is printed below the last. ``until`` is asked after each
    whether to end. Raises StoreError when there is nothing to begin with, KeyboardInterrupt.
    """
    window_us = max(round(window_s * US_PER_S / STEPS), 1) * STEPS
    now = broker_status(path)
    event: str | None = None
    trouble: str | None = None
    with _screen(console) as show:
        while True:
            with _DeliveryCount(spark, path, now.now_us - window_us, window_us) as counting:
                anew = None
                while anew is None:
                    notes = (Text(each) for each in (event, trouble) if each)
                    show(Group(*notes, counting.table.render(now)))
                    if until is not None and until():
                        return
                    counting.wait()
                    try:
                        before, now = now, broker_status(path)
                    except StoreError as error:
                        trouble = str(error)
                        continue
                    trouble = None if now.is_running else f"no broker is seen to run on {path}"
                    anew = "another store is there" if now.store != before.store else counting.failure()
                    event = news(before, now) or event
                event = f"{instant(now.now_us)}: {anew}, so it is counted anew"


def news(before: BrokerStatus, now: BrokerStatus) -> str | None:
    """What has happened between two looks at a store."""
    if now.run != before.run:
        what = "the broker was started again"
    elif now.moves != before.moves:
        what = "the clock was moved"
    elif now.newest < before.newest:
        what = "the broker was reset"
    else:
        return None
    return f"{instant(now.now_us)}: {what}"


class _DeliveryCount:
    """A streaming query over a store, from an instant on, and the table that it fills."""

    def __init__(self, spark: SparkSession, path: Path, since_us: int, window_us: int) -> None:
        self.table = RollingTable(window_us, since_us)
        self._counted: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        self._checkpoints = tempfile.TemporaryDirectory(prefix="mocketmq-follow-", ignore_cleanup_errors=True)
        own = spark.newSession()
        own.conf.set("spark.sql.shuffle.partitions", "1")
        own.dataSource.register(DeliveryStream)
        deliveries = own.readStream.format(DeliveryStream.name()).option("since_us", since_us).load(str(path))
        self._query = (
            windows(deliveries, window_us)
            .writeStream.outputMode("update")
            .option("checkpointLocation", self._checkpoints.name)
            .trigger(processingTime=f"{TICK_S} seconds")
            .foreachBatch(self._take)
            .start()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._query.stop()
        self._checkpoints.cleanup()

    def wait(self) -> None:
        """Until something was counted, or for a tick."""
        with suppress(queue.Empty):
            self.table.update(self._counted.get(timeout=TICK_S))

    def failure(self) -> str | None:
        """Why the query has ended, if it was the store. Raises StreamingQueryException for a defect."""
        if (error := self._query.exception()) is None:
            return None
        if StoreError.__module__ + ".Store" not in str(error):
            raise error
        return "the store could not be read"

    def _take(self, changed: DataFrame, _batch: int) -> None:
        self._counted.put(changed.collect())


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Shows one thing after the other: in a terminal in the place of the last."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda shown: live.update(shown, refresh=True)
    else:
        console.width = _WIDTH
        yield console.print
