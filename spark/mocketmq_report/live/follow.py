"""Shows a rolling table of a running broker by level: ``mocketmq report --follow``.

Spark counts the deliveries. Spark may take seconds to start, or a minute on a busy machine; until then this
process counts. The table continues when the broker stops, restarts, moves its clock or is reset. If another
store replaces the first, counting starts again.
"""

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreError
from mocketmq_report.figures import instant
from mocketmq_report.ledger.places import SparkStarter
from mocketmq_report.live.delivery_stream import STEPS, DeliveryStream, first_count, windows
from mocketmq_report.live.rolling_table import RollingTable
from mocketmq_report.live.status import BrokerStatus, broker_status

TICK_S: Final = 1.0
"""Approximate real seconds between two updates of the table."""
_LATE_WORKER: Final = "Python worker failed to connect back"
"""Spark's error if a worker takes more than ten seconds to start, as on a busy machine."""
_WIDTH: Final = 180
"""Width in columns of output that is not a terminal."""


def follow(
    spark: SparkStarter,
    path: Path,
    *,
    window_s: float,
    console: Console,
    until: Callable[[], bool] | None = None,
) -> None:
    """Show the table of the broker whose data directory is ``path`` until Ctrl-C.

    In a terminal, the table is updated in place; elsewhere, each table is printed below the last. ``until``
    is called after each table, and ends the loop by returning true. Raises StoreError if the store is
    unreadable at the start.
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
                    notes = (Text(each) for each in (event, trouble, counting.doing()) if each)
                    show(Group(*notes, counting.table.render(now, console.width)))
                    if until is not None and until():
                        return
                    counting.wait()
                    try:
                        before, now = now, broker_status(path)
                    except StoreError as error:
                        trouble = str(error)
                        continue
                    trouble = None if now.is_running else f"no broker seems to be running on {path}"
                    anew = (
                        "another store has taken its place"
                        if now.store != before.store
                        else counting.failure()
                    )
                    event = news(before, now) or event
                event = f"{instant(now.now_us)}: {anew}, so counting starts again"


def news(before: BrokerStatus, now: BrokerStatus) -> str | None:
    """Return a sentence about the change between two statuses of a store; None if there is none."""
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
    """A streaming query over the deliveries of a store since an instant, and its table.

    The query starts in its own thread.
    """

    def __init__(self, spark: SparkStarter, path: Path, since_us: int, window_us: int) -> None:
        self.table = RollingTable(window_us, since_us)
        self._path = path
        self._is_streaming = False
        self._counted: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "follow-start")
        self._query = self._thread.submit(self._start, spark, since_us, window_us)

    def __enter__(self) -> Self:
        self._count_here()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        if self._query.exception() is None:
            self._query.result().stop()

    def wait(self) -> None:
        """Wait for a count by Spark, at most for ``TICK_S``."""
        try:
            counted = self._counted.get(timeout=TICK_S)
        except queue.Empty:
            if not self._is_streaming:
                self._count_here()
            return
        if not self._is_streaming:
            self._is_streaming = True
            self.table = RollingTable(self.table.window_us, self.table.since_us)
        self.table.update(counted)

    def doing(self) -> str | None:
        """Return a sentence on what the table waits for; None if it waits for nothing."""
        if not self.table.has_deliveries:
            return f"nothing was delivered since {instant(self.table.since_us)}"
        return None if self._is_streaming else "Spark is starting; this process counts until then"

    def failure(self) -> str | None:
        """Return why the query ended or did not start, if a restart can help. Raises any other error."""
        if not self._query.done():
            return None
        error = self._query.exception() or self._query.result().exception()
        if error is None:
            return None
        if StoreError.__module__ + ".Store" in str(error):
            return "the store could not be read"
        if _LATE_WORKER in str(error):
            return "a process of Spark did not start in time"
        raise error

    def _start(self, spark: SparkStarter, since_us: int, window_us: int) -> StreamingQuery:
        own = spark().newSession()
        own.conf.set("spark.sql.shuffle.partitions", "1")
        own.dataSource.register(DeliveryStream)
        stream = own.readStream.format(DeliveryStream.name()).option("since_us", since_us)
        return (
            windows(stream.load(str(self._path)), window_us)
            .writeStream.outputMode("update")
            .trigger(processingTime=f"{TICK_S} seconds")
            .foreachBatch(self._take)
            .start()
        )

    def _take(self, changed: DataFrame, _batch: int) -> None:
        self._counted.put(changed.collect())

    def _count_here(self) -> None:
        """Rebuild the table; keep it unchanged while the store is unreadable."""
        table = RollingTable(self.table.window_us, self.table.since_us)
        with suppress(StoreError):
            table.update(first_count(self._path, table.since_us, table.window_us))
            self.table = table


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Show one screen after another; in a terminal, each screen replaces the last."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda shown: live.update(shown, refresh=True)
    else:
        console.width = _WIDTH
        yield console.print
