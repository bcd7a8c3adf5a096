"""Show a rolling table of a running broker by level: ``mocketmq report --follow``.

Spark counts the deliveries. It takes seconds to start, or a minute on a busy machine; until its first count,
they are counted here. The table goes on when the broker stops, starts again, moves its clock or is reset. If
another store takes the place of the first, counting starts again.
"""

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
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
from mocketmq_report.live.delivery_stream import STEPS, DeliveryStream, windows
from mocketmq_report.live.first_count import first_count
from mocketmq_report.live.rolling_table import RollingTable
from mocketmq_report.live.status import BrokerStatus, broker_status

TICK_S: Final = 1.0
"""Real seconds between two updates of the table, about."""
_LATE_WORKER: Final = "Python worker failed to connect back"
"""Spark gives its processes ten seconds to start, which can be too short on a busy machine."""
_WIDTH: Final = 180
"""Columns of the output if it is no terminal."""


def follow(
    spark: SparkStarter,
    path: Path,
    *,
    window_s: float,
    console: Console,
    until: Callable[[], bool] | None = None,
) -> None:
    """Show the table of the broker whose data directory is ``path`` until Ctrl-C.

    In a terminal one table is updated, elsewhere each is printed below the last. ``until`` is called after
    each, and ends this by returning true. Raises StoreError if the store cannot be read at first.
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
                    trouble = None if now.is_running else f"no broker seems to run on {path}"
                    anew = (
                        "another store has taken its place"
                        if now.store != before.store
                        else counting.failure()
                    )
                    event = news(before, now) or event
                event = f"{instant(now.now_us)}: {anew}, so counting starts again"


def news(before: BrokerStatus, now: BrokerStatus) -> str | None:
    """What happened between two looks at a store, in a sentence, or None."""
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
    """A streaming query over a store from an instant on, and the table that it fills.

    The query starts in a thread of its own.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        if self._query.exception() is None:
            self._query.result().stop()

    def wait(self) -> None:
        """Wait until Spark has counted something, or for a tick."""
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
        """What the table waits for, in a sentence, or None."""
        if not self.table.has_deliveries:
            return f"nothing was delivered since {instant(self.table.since_us)}"
        return None if self._is_streaming else "Spark is starting; until then, deliveries are counted here"

    def failure(self) -> str | None:
        """Why the query ended or did not start, if it can start again. Raises other errors."""
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
        """Make the table anew; it stays as it is while the store cannot be read."""
        table = RollingTable(self.table.window_us, self.table.since_us)
        with suppress(StoreError):
            table.update(first_count(self._path, table.since_us, table.window_us))
            self.table = table


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Show one thing after the other, in a terminal in place of the last."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda shown: live.update(shown, refresh=True)
    else:
        console.width = _WIDTH
        yield console.print
